"""A lane's query from its start to its end, with the scratch checkpoint that it alone has."""

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


class RunningQuery:
    def __init__(self, query: StreamingQuery, checkpoint: Path | None, trigger: Trigger) -> None:
        self._query, self._checkpoint, self._trigger = query, checkpoint, trigger

    @classmethod
    def start(
        cls, session: SparkSession, config: PipelineConfig, settings: StageSettings, starting: str
    ) -> "RunningQuery":
        checkpoint = Path(tempfile.mkdtemp(prefix="tidegate-lane-"))
        try:
            query = start_query(session, config, settings, starting=starting, checkpoint=checkpoint)
        except PySparkException:
            shutil.rmtree(checkpoint, ignore_errors=True)
            raise
        return cls(query, checkpoint, settings.trigger)

    @property
    def is_active(self) -> bool:
        return bool(self._query.isActive)

    @property
    def is_idle(self) -> bool:
        """Between two micro-batches no stage runs: all it took is committed, and only the driver beats the heart."""
        return self._trigger is not Trigger.REALTIME and not self._query.status["isTriggerActive"]

    def await_end(self, seconds: float) -> None:
        self._query.awaitTermination(seconds)

    def end(self) -> None:
        with contextlib.suppress(PySparkException):
            self._query.stop()
        if self._checkpoint is not None:
            shutil.rmtree(self._checkpoint, ignore_errors=True)
