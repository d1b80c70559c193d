"""Workers are forked from a daemon that has loaded the stage: what they share with it, and what they must not."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
from kit.pipelines import checked, document, secrets_of

from tidegate.errors import ConfigError
from tidegate_processor.spark import daemon
from tidegate_processor.spark import session as spark

_FORKS = """
import json, os, sys
from tidegate_processor.spark import daemon

def kilobytes(key):
    with open("/proc/self/smaps_rollup") as told:
        return next(int(line.split()[1]) for line in told if line.startswith(key))

daemon.preload()
threads, before = len(os.listdir("/proc/self/task")), set(sys.modules)
reading, writing = os.pipe()
if os.fork() == 0:
    from tidegate_processor.stage import warm_up
    warm_up()
    private = kilobytes("Private_Dirty:") + kilobytes("Private_Clean:")
    said = {"threads": threads, "private": private, "all": kilobytes("Rss:"), "new": sorted(set(sys.modules) - before)}
    os.write(writing, json.dumps(said).encode())
    os._exit(0)
os.wait()
print(os.read(reading, 1 << 20).decode())
"""


@pytest.fixture(scope="module")
def forked() -> dict[str, object]:
    done = subprocess.run([sys.executable, "-c", _FORKS], capture_output=True, text=True, timeout=120, check=True)
    said: dict[str, object] = json.loads(done.stdout)
    return said


def test_a_daemon_that_is_ready_to_fork_has_one_thread(forked: dict[str, int]) -> None:
    """A lock that another thread held would stay locked in the worker for ever."""
    assert forked["threads"] == 1


def test_a_worker_imports_nothing_that_the_daemon_has_not(forked: dict[str, list[str]]) -> None:
    assert forked["new"] == []


def test_a_worker_that_is_warm_has_written_little_of_what_it_shares(forked: dict[str, int]) -> None:
    """6 MB of 120; by itself each would hold 286."""
    assert forked["private"] < 20 * 1024
    assert forked["all"] < 180 * 1024


def test_nothing_but_the_port_is_written_to_spark(capfd: pytest.CaptureFixture[str]) -> None:
    with daemon._output_to_errors():
        os.write(1, b"a library says hello\n")
    print("port")

    said = capfd.readouterr()
    assert (said.out, said.err) == ("port\n", "a library says hello\n")


def test_what_is_left_out_can_be_imported_later() -> None:
    script = (
        "from tidegate_processor.spark import daemon; daemon.preload(); import sys;"
        "assert 'pandas' not in sys.modules; import pandas, opentelemetry.sdk.metrics, pyarrow; pyarrow.array([b''])"
    )
    subprocess.run([sys.executable, "-c", script], timeout=120, check=True)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    lib = tmp_path / "pyspark/python/lib"
    lib.mkdir(parents=True)
    (tmp_path / "pyspark/__init__.py").touch()
    return lib / "pyspark.zip"


def test_an_archive_of_files_that_are_there_is_not_imported_from(installed: Path, tmp_path: Path) -> None:
    path = ["", str(installed), "/opt/py4j.zip", str(tmp_path)]

    assert daemon.from_files(path) == ["", "/opt/py4j.zip", str(tmp_path)]


def test_an_archive_of_another_installation_is_imported_from(installed: Path, tmp_path: Path) -> None:
    elsewhere = [str(installed), "/usr/lib/python"]
    of_a_cluster = ["/opt/spark/python/lib/pyspark.zip", str(tmp_path)]

    assert daemon.from_files(elsewhere) == elsewhere
    assert daemon.from_files(of_a_cluster) == of_a_cluster


@pytest.fixture
def started() -> Iterator[subprocess.Popen[bytes]]:
    """In a folder of a short name: that of a socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="tidegate-") as folder:
        environ = os.environ | {"PYTHON_UNIX_DOMAIN_ENABLED": "true", "PYTHON_WORKER_FACTORY_SOCK_DIR": folder}
        command = [sys.executable, "-m", daemon.__name__, "pyspark.worker"]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, umask=0o002
        ) as process:
            yield process
            assert process.stdin is not None
            process.stdin.close()  # as Spark ends it
            process.wait(20)
        assert list(Path(folder).iterdir()) == []


def number(pipe: IO[bytes]) -> int:
    return int.from_bytes(pipe.read(4), "big")


def test_only_its_own_user_gets_workers_and_these_write_files_with_the_rights_that_were_configured(
    started: subprocess.Popen[bytes],
) -> None:
    assert started.stdout is not None
    path = Path(started.stdout.read(number(started.stdout)).decode())

    with socket.socket(socket.AF_UNIX) as client, client.makefile("rb") as answers:
        client.connect(str(path))
        worker = Path(f"/proc/{number(answers)}/status").read_text()

    assert path.stat().st_mode & 0o077 == 0
    assert "Umask:\t0002" in worker


def test_another_daemon_is_not_configured() -> None:
    redis = "redis://:secret@127.0.0.1:6379"
    values = document("shop", kafka="127.0.0.1:9", redis_url=redis)
    values["processor"]["spark"] = {"spark.python.daemon.module": "pyspark.daemon"}

    with pytest.raises(ConfigError) as refused:
        spark.check(checked(values, secrets_of(redis_url=redis)))

    assert [problem.code for problem in refused.value.problems] == ["SPARK_SETTING_RESERVED"]


_OF_SPARK = """An error occurred while calling o46.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times:
Error from python worker:
  python: Error while finding module specification for 'tidegate_processor.spark.daemon' (%s)
PYTHONPATH was: ..."""


@pytest.mark.parametrize(
    ("text", "is_unfit"),
    [
        (_OF_SPARK % "ModuleNotFoundError: No module named 'tidegate_processor'", True),
        (_OF_SPARK % "OSError: [Errno 28] No space left on device", False),
        ("ExecutorLostFailure (executor 1 exited caused by one of the running tasks)", False),
    ],
)
def test_executors_without_the_daemon_are_told_from_executors_that_failed(text: str, is_unfit: bool) -> None:
    assert spark._is_of_python(RuntimeError(text)) is is_unfit
