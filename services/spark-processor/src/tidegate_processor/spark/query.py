"""A lane's streaming query: raw topic → stage. All effects are in the stage; the query's own output is empty.

Spark's checkpoint is scratch: each start gets a fresh one and begins where the lane's cursor says. Of several writers
each is a task of the same micro-batch, and is given all of it: it is one source that all of them read.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tidegate.config.pipeline import PipelineConfig
from tidegate.config.sinks import Trigger
from tidegate.contracts import names
from tidegate_processor.kafka_clients import spark_options
from tidegate_processor.stage import StageSettings, run_stage

if TYPE_CHECKING:
    import pyarrow

Stage: TypeAlias = "Callable[[StageSettings, Iterator[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]"

# The end of a batch is a seam of a second in which nothing is delivered; no lane depends on Spark's commit.
_REALTIME_BATCH = "60 minutes"
_SOURCE = {
    "failOnDataLoss": "true",
    "kafka.max.poll.records": "5000",
    "kafka.max.partition.fetch.bytes": str(16 * 2**20),
    "kafka.fetch.max.bytes": str(64 * 2**20),
}

# A writer that delivers alone does so until the micro-batch ends, and the others stand: 1,000 full frames take it 3 s.
_MEETING = {"maxOffsetsPerTrigger": "1000"}
_WRITER_VARIABLE = "TIDEGATE_WRITER"

# The end of a micro-batch is near, so no frame has to be pushed to Python by the next one: many go at once.
_BULK = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
    "spark.sql.execution.arrow.maxBytesPerBatch": "8m",
    "spark.sql.execution.pandas.udf.buffer.size": "65536",
}


def start_query(
    session: SparkSession,
    config: PipelineConfig,
    settings: StageSettings,
    *,
    starting: str,
    checkpoint: Path,
    stage: Stage = run_stage,
) -> StreamingQuery:
    if settings.trigger is Trigger.BATCH:
        session = _in_bulk(session)
    kafka = spark_options(config.kafka)
    topic = config.raw_topic.name
    source = _SOURCE if settings.writers == 1 else _SOURCE | _MEETING
    frames = (
        session.readStream.format("kafka")
        .options(**kafka, **source)
        .options(subscribe=topic, startingOffsets=starting)
        .load()
        .select("offset", "value")
    )
    writer = (
        _through(session, frames, settings, stage)
        .writeStream.queryName(f"{settings.sink}-{settings.incarnation}")
        .option("checkpointLocation", str(checkpoint))
        .outputMode("update")
        .format("kafka")
        .options(**kafka, topic=names.scratch_topic(config.pipeline))
    )
    if settings.trigger is Trigger.REALTIME:
        writer = writer.trigger(realTime=_REALTIME_BATCH)
    else:
        writer = writer.trigger(processingTime="0 seconds")
    return writer.start()


def _through(session: SparkSession, frames: DataFrame, settings: StageSettings, stage: Stage) -> DataFrame:
    if settings.writers == 1:
        return frames.mapInArrow(partial(stage, settings), "value binary")
    shares = []
    for writer in range(settings.writers):
        with _worker_of_its_own(session, writer):
            shares.append(frames.mapInArrow(partial(stage, replace(settings, writer=writer)), "value binary"))
    return reduce(DataFrame.union, shares)


@contextmanager
def _worker_of_its_own(session: SparkSession, writer: int) -> Iterator[None]:
    """Spark gives a task any worker that is idle and of the same environment. One that has been another writer before
    would have to fence, open and read anew, in each micro-batch."""
    environment = session.sparkContext.environment
    environment[_WRITER_VARIABLE] = str(writer)
    try:
        yield
    finally:
        del environment[_WRITER_VARIABLE]


def _in_bulk(session: SparkSession) -> SparkSession:
    """Settings are a session's, and those of the one that is given are what a real-time lane depends on."""
    bulk = session.newSession()
    for name, value in _BULK.items():
        bulk.conf.set(name, value)
    return bulk
