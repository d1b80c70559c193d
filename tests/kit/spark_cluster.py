"""Spark's own cluster on one machine: `local-cluster` starts executors as processes, as a cluster would.

Invariant: it writes below the folder that it is given, never into the installed Spark: executors keep their files and
logs under SPARK_HOME.
"""

from collections.abc import Iterator
from pathlib import Path

import pyspark

MASTER = "local-cluster[2,1,1024]"
"""Two executors with one slot each, and 1,024 MB."""

_EXECUTOR = b"CoarseGrainedExecutorBackend"


def spark_home(folder: Path) -> dict[str, str]:
    """The environment of a driver whose executors work below `folder`."""
    home = folder / "spark"
    home.mkdir()
    for each in Path(pyspark.__file__).parent.iterdir():
        (home / each.name).symlink_to(each)
    return {"SPARK_HOME": str(home), "SPARK_LOCAL_DIRS": str(folder)}


def executors(driver: int) -> list[int]:
    """Of this driver, by pid."""
    return [pid for pid in _processes() if _EXECUTOR in _command(pid) and driver in _ancestors(pid)]


def executor_of(worker: int) -> int:
    """The executor that a Python worker belongs to."""
    return next(pid for pid in _ancestors(worker) if _EXECUTOR in _command(pid))


def _processes() -> Iterator[int]:
    return (int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit())


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        except OSError:
            return
        pid = int(stat.rpartition(")")[2].split()[1])
        yield pid
