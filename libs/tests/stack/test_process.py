"""A child ends with its parent, however that ends, and not before."""

import subprocess
import sys
from pathlib import Path
from signal import SIGKILL, SIGTERM

import psutil
import pytest
from kit.wait import wait

from tidegate.errors import TransientError
from tidegate.stack.process import ChildProcess, Command

PARENT = """
import sys, threading
from pathlib import Path
from tidegate.stack.process import ChildProcess, Command
folder = Path(sys.argv[1])
child = ChildProcess(Command(tuple(sys.argv[2:]), folder / "log", folder / "pid"))
starter = threading.Thread(target=child.start)
starter.start()
starter.join()
print(child.pid, flush=True)
sys.stdin.read()
"""


def sleeping(folder: Path, code: str = "", **options) -> Command:
    program = f"import subprocess, sys, time; {code or 'pass'}; print('up', flush=True); time.sleep(600)"
    return Command((sys.executable, "-c", program), folder / "log", folder / "pid", **options)


def started(command: Command) -> ChildProcess:
    child = ChildProcess(command)
    child.start()
    wait(lambda: command.log.exists() and "up" in command.log.read_text(), 10, "the child is up")
    return child


def test_stop_leaves_nothing(tmp_path):
    """The exit code tells the signal, the pid file is gone."""
    child = started(sleeping(tmp_path))
    assert child.running
    assert child.stop(((SIGTERM, 10.0),)) == -SIGTERM
    assert not child.running
    assert not psutil.pid_exists(child.pid)
    assert not (tmp_path / "pid").exists()


def test_kill_of_the_parent_ends_the_child(tmp_path):
    """A child started from a thread that has ended since lives on with the process, and ends with it."""
    argv = [sys.executable, "-c", PARENT, str(tmp_path), sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        pid = int(parent.stdout.readline())
        wait(
            lambda: b"launch.py" not in Path(f"/proc/{pid}/cmdline").read_bytes(),
            10,
            "the child has become its program",
        )
        child = psutil.Process(pid)
        assert child.is_running()
        parent.kill()
        parent.wait()
        wait(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, 10, "the child has ended")


def test_a_sweep_ends_what_the_child_left(tmp_path):
    """A service that is killed takes its JVM and workers along."""
    forked = "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']).pid)"
    child = started(sleeping(tmp_path, forked, sweep=True))
    grandchild = psutil.Process(int((tmp_path / "log").read_text().split()[0]))
    child.kill()
    assert child.exit_code == -SIGKILL
    wait(lambda: not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE, 10, "it is gone too")


def test_the_shells_variables_do_not_reach_a_child(tmp_path, monkeypatch):
    """What happens to be set outside does not change a server."""
    monkeypatch.setenv("KAFKA_OPTS", "-Xmx1g")
    code = "import os; print('KAFKA_OPTS' in os.environ, os.environ.get('GIVEN'))"
    child = started(sleeping(tmp_path, code, environment={"GIVEN": "yes"}))
    child.kill()
    assert (tmp_path / "log").read_text().split("\n")[0] == "False yes"


def test_a_log_folder_that_is_not_there_is_told(tmp_path):
    """A failure to start is raised where it was asked for, and leaves nothing running."""
    child = ChildProcess(sleeping(tmp_path / "missing"))
    with pytest.raises(TransientError, match="STACK_SPAWN_FAILED"):
        child.start()
    assert not child.running
