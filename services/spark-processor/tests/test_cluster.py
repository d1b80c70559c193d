"""What a cluster asks of the configuration and of the driver; lanes that run on one are test_kill_trials.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kit.pipelines import checked, document, secrets_of
from kit.spark_cluster import MASTER

from tidegate.config.pipeline import PipelineConfig
from tidegate.errors import ConfigError
from tidegate_processor.heartbeat import _is_our_worker
from tidegate_processor.spark.session import check

REDIS = "redis://:secret@127.0.0.1:6379"


def config(**processor: object) -> PipelineConfig:
    values = document("shop", kafka="127.0.0.1:9", redis_url=REDIS)
    values["processor"] |= processor
    values["sinks"] += [{"name": "lines", "type": "stdout"}, {"name": "files", "type": "file"}]
    return checked(values, secrets_of(redis_url=REDIS))


def test_what_the_stage_depends_on_is_not_configured_away() -> None:
    with pytest.raises(ConfigError) as refused:
        check(config(spark={"spark.task.maxFailures": "4", "spark.buffer.size": "65536", "spark.cores.max": "4"}))

    assert [problem.path for problem in refused.value.problems] == [
        "processor.spark.spark.buffer.size",
        "processor.spark.spark.task.maxFailures",
    ]


def test_sinks_that_write_where_they_run_are_refused_on_a_cluster() -> None:
    with pytest.raises(ConfigError) as refused:
        check(config(master="k8s://https://127.0.0.1:6443"))

    assert [(problem.path, problem.code) for problem in refused.value.problems] == [
        ("sinks.lines.type", "SINK_NEEDS_ONE_MACHINE"),
        ("sinks.files.type", "SINK_NEEDS_ONE_MACHINE"),
    ]
    check(config(master=MASTER))


UI = {"master": "spark://cluster:7077", "spark_ui": "127.0.0.1:4040"}


@pytest.mark.parametrize("defaults", ["", "spark.driver.hostname x", "# spark.driver.host x"])
def test_a_page_on_loopback_does_not_hide_the_driver_from_its_executors(tmp_path: Path, monkeypatch, defaults) -> None:
    (tmp_path / "spark-defaults.conf").write_text(f"spark.executor.cores 2\n{defaults}\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))

    assert "SPARK_UI_BINDS_DRIVER" in codes(config(**UI))


def test_a_page_beside_a_driver_that_is_named_is_let_be(tmp_path: Path, monkeypatch) -> None:
    named = [config(**UI, spark={"spark.driver.host": "10.0.0.7"}), config(**UI), config(**UI | {"master": MASTER})]
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.host                  ${env:POD_IP}\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))

    assert not any("SPARK_UI_BINDS_DRIVER" in codes(each) for each in named)


def codes(configured: PipelineConfig) -> set[str]:
    try:
        check(configured)
    except ConfigError as refused:
        return {problem.code for problem in refused.problems}
    return set()


_READS = "import sys; sys.stdin.read()"
_LEAVES = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, '-c', {_READS!r}, 'pyspark'], stdout=subprocess.DEVNULL)
print(child.pid)
"""


def test_only_workers_that_descend_from_the_driver_are_killed() -> None:
    """On another machine a pid means another process."""
    reading, writing = os.pipe()
    with subprocess.Popen([sys.executable, "-c", _READS, "pyspark"], stdin=reading) as ours:
        left = subprocess.run([sys.executable, "-c", _LEAVES], stdin=reading, stdout=subprocess.PIPE, check=True)
        found = [_is_our_worker(pid) for pid in (ours.pid, int(left.stdout), os.getppid(), 2**22)]
        os.close(writing)  # both end
    os.close(reading)

    assert found == [True, False, False, False]
