"""The query of one lane, and the scratch that Spark keeps for it: both are gone when it has ended."""

import contextlib
import shutil
import tempfile
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tidegate.config.epoch import lane_epoch
from tidegate.config.pipeline import PipelineConfig
from tidegate.config.sinks import Trigger
from tidegate_processor.spark.query import start_query
from tidegate_processor.stage import StageSettings
from tidegate_processor.writers import Start, start_of


class LaneQuery:
    def __init__(self, session: SparkSession, config: PipelineConfig) -> None:
        self._session, self._config = session, config
        self._query: StreamingQuery | None = None
        self._checkpoint: Path | None = None
        self.trigger = Trigger.REALTIME

    @property
    def is_active(self) -> bool:
        return self._query is not None and self._query.isActive

    @property
    def is_idle(self) -> bool:
        """Between two micro-batches no stage runs: all it took is committed, and only the driver beats the heart."""
        if self._query is None or self.trigger is Trigger.REALTIME:
            return False
        return not self._query.status["isTriggerActive"]

    def start(self, sink: str, incarnation: int, trigger: Trigger) -> Start:
        start = start_of(self._config, sink)
        self.trigger = trigger if start.writers == 1 else Trigger.BATCH
        settings = StageSettings(
            config=self._config,
            sink=sink,
            config_epoch=lane_epoch(self._config, sink),
            incarnation=incarnation,
            trigger=self.trigger,
            spark_ui=self._session.sparkContext.uiWebUrl or "",
            writers=start.writers,
            until=start.until,
        )
        checkpoint = self._checkpoint = Path(tempfile.mkdtemp(prefix="tidegate-lane-"))
        self._query = start_query(self._session, self._config, settings, starting=start.starting, checkpoint=checkpoint)
        return start

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
