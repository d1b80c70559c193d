"""Failpoints: inert unless armed, once when armed, each at one place of the services."""

import os
import subprocess
import sys
from pathlib import Path
from signal import SIGKILL

import pytest
from kit.wait import wait

from tidegate.failpoints import VARIABLE, Failpoint

ROOT = Path(__file__).resolve().parents[2]
REACHES = """
import sys
from tidegate.failpoints import Failpoint, reach
for at in range(3):
    reach(Failpoint.READER_SENT)
    print(at, flush=True)
"""


def started(folder: Path | None) -> "subprocess.Popen[str]":
    environ = {name: value for name, value in os.environ.items() if name != VARIABLE}
    if folder is not None:
        environ[VARIABLE] = str(folder)
    return subprocess.Popen([sys.executable, "-c", REACHES], env=environ, stdout=subprocess.PIPE, text=True)


def reached(folder: Path | None) -> tuple[int, str]:
    process = started(folder)
    said, _ = process.communicate(timeout=20)
    return process.returncode, said


def test_without_the_variable_nothing_happens(tmp_path: Path) -> None:
    (tmp_path / Failpoint.READER_SENT).write_text("kill")

    assert reached(None) == (0, "0\n1\n2\n")


def test_a_kill_comes_at_its_time_and_once(tmp_path: Path) -> None:
    (tmp_path / Failpoint.READER_SENT).write_text("kill 3")

    assert reached(tmp_path) == (-SIGKILL, "0\n1\n")
    assert reached(tmp_path) == (0, "0\n1\n2\n")


def test_a_hold_ends_when_its_file_is_taken_away(tmp_path: Path) -> None:
    armed = tmp_path / Failpoint.READER_SENT
    armed.write_text("hold 2")
    with started(tmp_path) as process:
        wait(lambda: armed.read_text() == "hold 1", 20, "it was reached once")
        assert process.poll() is None
        armed.unlink()
        said, _ = process.communicate(timeout=20)

    assert (process.returncode, said) == (0, "0\n1\n2\n")


@pytest.mark.parametrize("point", Failpoint)
def test_each_is_reached_at_one_place(point: Failpoint) -> None:
    sources = (path.read_text() for path in (ROOT / "services").glob("*/src/**/*.py"))

    assert sum(text.count(f"reach(Failpoint.{point.name})") for text in sources) == 1
