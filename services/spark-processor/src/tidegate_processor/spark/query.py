"""A lane's streaming query: raw topic → stage. All effects are in the stage; the query's own output is empty.

Spark's checkpoint is scratch: each start gets a fresh one and begins where the lane's cursor says.
"""

from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tidegate.config.pipeline import PipelineConfig
from tidegate.config.sinks import Trigger
from tidegate.contracts import names
from tidegate_processor.kafka_clients import spark_options
from tidegate_processor.stage import StageSettings, run_stage

# The end of a batch is a seam of a second in which nothing is delivered; no lane depends on Spark's commit.
_REALTIME_BATCH = "60 minutes"
_SOURCE = {
    "failOnDataLoss": "true",
    "kafka.max.poll.records": "5000",
    "kafka.max.partition.fetch.bytes": str(16 * 2**20),
    "kafka.fetch.max.bytes": str(64 * 2**20),
}


def start_query(
    session: SparkSession, config: PipelineConfig, settings: StageSettings, *, starting: str, checkpoint: Path
) -> StreamingQuery:
    kafka = spark_options(config.kafka)
    topic = config.raw_topic.name
    frames = (
        session.readStream.format("kafka")
        .options(**kafka, **_SOURCE)
        .options(subscribe=topic, startingOffsets=starting)
        .load()
        .select("offset", "value")
    )
    writer = (
        frames.mapInArrow(partial(run_stage, settings), "value binary")
        .writeStream.queryName(f"{settings.sink}-{settings.incarnation}")
        .option("checkpointLocation", str(checkpoint))
        .outputMode("update")
        .format("kafka")
        .options(**kafka, topic=names.scratch_topic(config.pipeline))
    )
    trigger = config.sink(settings.sink).trigger
    if trigger is Trigger.REALTIME:
        writer = writer.trigger(realTime=_REALTIME_BATCH)
    else:
        writer = writer.trigger(processingTime="0 seconds")
    return writer.start()
