"""Only what is provably ours is ended."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from signal import SIGKILL, SIGTERM

import pytest
from kit.wait import wait

from tidegate.stack.identity import Identity, end_leftover

SLEEPER = (sys.executable, "-c", "import time; print(flush=True); time.sleep(600)")
STEPS = ((SIGTERM, 5.0), (SIGKILL, 5.0))


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(SLEEPER, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process
        process.kill()


def test_a_leftover_is_ended(sleeper, tmp_path):
    """Boot, pid, start time and command line agree: it is the one."""
    Identity.of(sleeper.pid, SLEEPER).write(tmp_path / "it")
    assert end_leftover(tmp_path / "it", STEPS)
    assert sleeper.wait(5) == -SIGTERM
    assert not (tmp_path / "it").exists()


def test_a_leftover_that_ignores_the_first_signal_gets_the_next(tmp_path):
    """The steps are walked until it is gone."""
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    argv = (sys.executable, "-c", code)
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as stubborn:
        stubborn.stdout.readline()
        Identity.of(stubborn.pid, argv).write(tmp_path / "it")
        assert end_leftover(tmp_path / "it", ((SIGTERM, 0.1), (SIGKILL, 5.0)))
        assert stubborn.wait(5) == -SIGKILL


@pytest.mark.parametrize(
    "foreign",
    [
        lambda ours: replace(ours, start_ticks=ours.start_ticks - 1),
        lambda ours: replace(ours, boot_id="another boot"),
        lambda ours: replace(ours, argv=("postgres", "-D", "/somewhere")),
    ],
    ids=["start time", "boot", "command line"],
)
def test_a_foreign_process_with_a_recycled_pid_is_never_touched(sleeper, tmp_path, foreign):
    """One thing that does not agree is enough."""
    foreign(Identity.of(sleeper.pid, SLEEPER)).write(tmp_path / "it")
    assert not end_leftover(tmp_path / "it", STEPS)
    assert sleeper.poll() is None


@pytest.mark.parametrize(
    "content", ["", "{", '{"pid": 1}', '{"pid": "x", "start_ticks": 1, "boot_id": "", "argv": []}', "[]"]
)
def test_a_torn_file_proves_nothing(tmp_path, content):
    """It is removed and no signal is sent."""
    path = tmp_path / "it"
    path.write_text(content)
    assert not end_leftover(path, STEPS)
    assert not path.exists()


def test_an_ended_process_is_not_running(sleeper, tmp_path):
    """Also while it waits to be reaped."""
    identity = Identity.of(sleeper.pid, SLEEPER)
    assert identity.is_running()
    sleeper.kill()
    wait(lambda: not identity.is_running(), 5, "the killed process is seen as gone")
    assert Path(f"/proc/{sleeper.pid}").exists(), "not reaped yet"
