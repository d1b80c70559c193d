"""The Spark session: `local[64]`, because slots are cheap and a real-time task holds its own for hours; or a cluster.

The settings below are what lets a record reach Python when it arrives instead of at the end of its batch; each was
measured with and without. Invariant: whoever configures Spark can't undo them.
"""

import os
import re
import sys
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from tidegate.config.pipeline import PipelineConfig
from tidegate.config.spark import revealed
from tidegate.errors import ConfigError, Problem
from tidegate_processor.sinks.registry import needs_one_machine
from tidegate_processor.sinks.stdout.config import STDOUT_VARIABLE
from tidegate_processor.spark import class_archive, daemon
from tidegate_processor.writers import LOCAL_SLOTS

if TYPE_CHECKING:
    import pyarrow

JARS_VARIABLE = "TIDEGATE_SPARK_JARS"
"""A folder, or jars with a colon between them. Unset where the image has them among Spark's own."""

_PACKAGE = "tidegate-processor"
_PYTHON = "spark.pyspark.python"
_CLASS_PATH = "spark.driver.extraClassPath"
_DRIVER_HOST = "spark.driver.host"
_IN_THE_DRIVER = "local["
# What a daemon of workers wrote before it died (PythonWorkerFactory.startDaemon).
_NOT_IMPORTED = re.compile(r"Error from python worker:.*(?:ModuleNotFound|Import)Error", re.DOTALL)

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
    # The JVM moves two columns of whole frames: compiling Java for it costs a start, and each lane, more than it saves.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Over TCP the JVM's second write to a worker waits until the first is acknowledged: 40 of a micro-batch's 120 ms.
    "spark.python.unix.domain.socket.enabled": "true",
    # What a client of Kafka is given in text: Spark's own words for a secret, and ours.
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|keystore[.]key|jaas[.]config",
    # Workers are forked from a process that has loaded the stage.
    "spark.python.daemon.module": daemon.__name__,
}

# The driver copies frames and plans queries: the first compiler is good enough, and halves the CPU of a start.
_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"
_LOGGING = f'-Dlog4j2.configurationFile="{Path(__file__).with_name("log4j2.properties")}"'


_OURS = frozenset(
    {
        *_REALTIME,
        *_LEAN,
        "spark.ui.enabled",
        "spark.ui.port",
        "spark.master",
        "spark.app.name",
        "spark.driver.memory",
        "spark.jars",
    }
)


def check(config: PipelineConfig) -> None:
    """What can be seen before Spark is started."""
    processor, problems = config.processor, []
    for name in sorted(_OURS & processor.spark.keys()):
        remedy = "Remove it: processor.master and processor.heap, or the stage itself, depend on it."
        problems.append(Problem(f"processor.spark.{name}", "SPARK_SETTING_RESERVED", "is set by the processor", remedy))
    if not is_one_machine(config):
        if processor.spark_ui is not None and not _driver_is_named(config):
            remedy = "Set spark.driver.host in processor.spark to what executors reach it by, or leave the page out."
            reason = "binds all of Spark's driver to its host, and executors would look for the driver there"
            problems.append(Problem("processor.spark_ui", "SPARK_UI_BINDS_DRIVER", reason, remedy))
        for sink in config.sinks:
            if needs_one_machine(sink):
                remedy = "Set processor.master: local, or use a sink that is reached over the network."
                reason = "writes to the machine that it runs on, and a lane may run on any of the cluster"
                problems.append(Problem(f"sinks.{sink.name}.type", "SINK_NEEDS_ONE_MACHINE", reason, remedy))
    if problems:
        raise ConfigError(
            "the configuration is refused: what Spark is to do",
            code="CONFIG_INVALID",
            remedy="Mend what is listed.",
            problems=tuple(problems),
        )


def _driver_is_named(config: PipelineConfig) -> bool:
    """By the pipeline, or by the defaults that Spark finds beside it, as in the chart."""
    if _DRIVER_HOST in config.processor.spark:
        return True
    defaults = Path(os.environ.get("SPARK_CONF_DIR", ""), "spark-defaults.conf")
    try:
        lines = defaults.read_text(errors="replace").splitlines() if "SPARK_CONF_DIR" in os.environ else []
    except OSError:
        return False
    return any(re.split(r"[\s=:]", line.strip(), maxsplit=1)[0] == _DRIVER_HOST for line in lines)


def is_one_machine(config: PipelineConfig) -> bool:
    return config.processor.master.startswith("local")


def open_session(config: PipelineConfig, *, archive_to: Path | None = None) -> SparkSession:
    """`archive_to`: where the JVM writes its classes when it ends, for later starts."""
    processor = config.processor
    settings = revealed(processor.spark)
    # Workers run the interpreter that runs us, unless another one is named: it has to have what the stage imports.
    python = settings.get(_PYTHON, sys.executable)
    os.environ["PYSPARK_PYTHON"], os.environ["PYSPARK_DRIVER_PYTHON"] = python, sys.executable
    os.environ[STDOUT_VARIABLE] = f"/proc/{os.getpid()}/fd/1"
    ui = processor.spark_ui
    if ui is not None:  # it would listen everywhere (WebUI.initServer); on a cluster `check` has seen the driver's host
        os.environ["SPARK_LOCAL_IP"] = ui.host
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)  # which nobody uses
    master, jars, java = _master(config), _jars(), f"{_JVM} {_LOGGING}"
    if master.startswith(_IN_THE_DRIVER):
        java = f"{java} {class_archive.java_options(archive_to)}"
        before = [settings[_CLASS_PATH]] if _CLASS_PATH in settings else []
        settings[_CLASS_PATH] = os.pathsep.join([*before, *class_archive.class_path(jars)])
    elif jars:
        settings.setdefault("spark.jars", ",".join(jars))
    builder = (
        SparkSession.builder.master(master)
        .appName(f"tidegate {config.pipeline}")
        .config("spark.ui.enabled", str(ui is not None).lower())
        .config("spark.ui.port", str(ui.port if ui is not None else 0))
        .config("spark.driver.memory", f"{processor.heap // 2**20}m")
        .config("spark.driver.extraJavaOptions", java)
        .config("spark.executor.extraJavaOptions", _JVM)
    )
    if is_one_machine(config):
        builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    session = builder.config(map=settings | _REALTIME | _LEAN).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _master(config: PipelineConfig) -> str:
    master = config.processor.master
    return f"local[{LOCAL_SLOTS}]" if master == "local" else master


def warm_up(session: SparkSession) -> None:
    """Boots a Python worker, lets it import what the stage needs, and compiles the way to it, while there is time.

    The worker is kept and serves the first lane: where lanes have to wait anyway, that takes seconds off the way to the
    first event. Executors of a cluster say here whether they can run the stage at all.
    """
    is_cluster = not session.sparkContext.master.startswith(_IN_THE_DRIVER)
    count = max(1, min(session.sparkContext.defaultParallelism, LOCAL_SLOTS)) if is_cluster else 1
    records = session.range(0, count, 1, numPartitions=count).selectExpr("id AS offset", "CAST('' AS binary) AS value")
    try:
        told = records.mapInArrow(_import_the_stage, "value binary").collect()
    except (PythonException, Py4JJavaError) as error:
        if not is_cluster or not _is_of_python(error):
            raise
        raise _unfit("can't import the stage") from error
    if any(bytes(row.value).decode() != version(_PACKAGE) for row in told):
        raise _unfit("have another version of it")


def _is_of_python(error: Exception) -> bool:
    """Not of executors that came and went: workers can't import the stage, or their daemon can't."""
    return isinstance(error, PythonException) or _NOT_IMPORTED.search(str(error)) is not None


def _unfit(why: str) -> ConfigError:
    return ConfigError(
        f"the executors of processor.master {why}",
        code="CLUSTER_PYTHON_UNFIT",
        remedy="Let them run the driver's image, or name an interpreter with the same packages by spark.pyspark.python "
        "in processor.spark, for example one out of spark.archives. Their log says what is missing.",
    )


def _import_the_stage(batches: "Iterator[pyarrow.RecordBatch]") -> "Iterator[pyarrow.RecordBatch]":
    """Says which version it has imported."""
    import pyarrow

    from tidegate_processor import stage  # in the worker, where it is expensive the first time

    for _ in batches:
        stage.warm_up()
    yield pyarrow.RecordBatch.from_pydict({"value": [version(_PACKAGE).encode()]})


def _jars() -> list[str]:
    setting = os.environ.get(JARS_VARIABLE, "")
    folder = Path(setting)
    if setting and folder.is_dir():
        return sorted(str(path) for path in folder.glob("*.jar"))
    return [path for path in setting.split(":") if path]
