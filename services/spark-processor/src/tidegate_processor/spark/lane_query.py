"""The query of one lane, and the scratch that Spark keeps for it: both are gone when it has ended."""

import contextlib
import shutil
import tempfile
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tidegate.config.pipeline import PipelineConfig
from tidegate.config.sinks import Trigger
from tidegate_processor.spark.query import start_query
from tidegate_processor.stage import StageSettings


class LaneQuery:
    def __init__(self, session: SparkSession, config: PipelineConfig) -> None:
        self.session, self._config = session, config
        self._query: StreamingQuery | None = None
        self._checkpoint: Path | None = None
        self._trigger = Trigger.REALTIME

    @property
    def is_active(self) -> bool:
        return self._query is not None and self._query.isActive

    @property
    def is_idle(self) -> bool:
        """Between two micro-batches no stage runs: all it took is committed, and only the driver beats the heart."""
        if self._query is None or self._trigger is Trigger.REALTIME:
            return False
        return not self._query.status["isTriggerActive"]

    def start(self, settings: StageSettings, starting: str) -> None:
        """`starting`: where it begins to read, in Spark's words."""
        self._trigger = settings.trigger
        self._checkpoint = Path(tempfile.mkdtemp(prefix="tidegate-lane-"))
        self._query = start_query(self.session, self._config, settings, starting=starting, checkpoint=self._checkpoint)

    def wait(self, seconds: float) -> None:
        if self._query is not None:
            self._query.awaitTermination(seconds)

    def end(self) -> None:
        query, self._query = self._query, None
        if query is not None:
            with contextlib.suppress(PySparkException):
                query.stop()
        if self._checkpoint is not None:
            shutil.rmtree(self._checkpoint, ignore_errors=True)
            self._checkpoint = None
