"""The Spark session: `local[64]`, because slots are cheap and a real-time task holds its own for hours.

The settings below are what lets a record reach Python when it arrives instead of at the end of its batch; each was
measured with and without.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from tidegate.config.pipeline import PipelineConfig
from tidegate_processor.sinks.stdout.config import STDOUT_VARIABLE

if TYPE_CHECKING:
    import pyarrow

JARS_VARIABLE = "TIDEGATE_SPARK_JARS"
"""A folder, or jars with a colon between them. Unset where the image has them among Spark's own."""

_SLOTS = 64

_REALTIME = {
    # mapInArrow is not on the list of Real-Time Mode.
    "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
    # One record is a whole frame.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    # With the defaults Python sees nothing until the batch ends.
    "spark.buffer.size": "1024",
    "spark.sql.execution.pandas.udf.buffer.size": "16",
}

_LEAN = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    # Checkpoints are scratch on a plain local disk: the raw file system saves forking `readlink` for every file.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    # An exception in a stage is a failed lane; the lane decides about the next try, not Spark.
    "spark.task.maxFailures": "1",
}

# The driver copies frames and plans queries: the first compiler is good enough, and halves the CPU of a start.
_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"


def open_session(config: PipelineConfig) -> SparkSession:
    # Workers run the interpreter that runs us: another one would lack what the stage imports.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ[STDOUT_VARIABLE] = f"/proc/{os.getpid()}/fd/1"
    builder = (
        SparkSession.builder.master(f"local[{_SLOTS}]")
        .appName(f"tidegate {config.pipeline}")
        .config("spark.driver.memory", f"{config.processor.heap // 2**20}m")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", _JVM)
        .config(map=_REALTIME | _LEAN)
    )
    jars = _jars()
    if jars:
        builder = builder.config("spark.jars", ",".join(jars))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def warm_up(session: SparkSession) -> None:
    """Boots a Python worker, lets it import what the stage needs, and compiles the way to it, while there is time.

    The worker is kept and serves the first lane: that takes seconds off the way to the first event.
    """
    record = session.range(0, 1, 1, numPartitions=1).selectExpr("id AS offset", "CAST('' AS binary) AS value")
    record.mapInArrow(_import_the_stage, "value binary").collect()


def _import_the_stage(batches: "Iterator[pyarrow.RecordBatch]") -> "Iterator[pyarrow.RecordBatch]":
    from tidegate_processor import stage  # in the worker, where it is expensive the first time

    for _ in batches:
        stage.warm_up()
    return iter(())


def _jars() -> list[str]:
    setting = os.environ.get(JARS_VARIABLE, "")
    folder = Path(setting)
    if setting and folder.is_dir():
        return sorted(str(path) for path in folder.glob("*.jar"))
    return [path for path in setting.split(":") if path]
