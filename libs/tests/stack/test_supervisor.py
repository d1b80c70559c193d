"""The fleet is kept running by the exit codes of the design."""

import sys
import threading
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL

import psutil
import pytest
from kit.wait import wait

from tidegate.stack.identity import Identity
from tidegate.stack.supervisor import (
    Service,
    ServiceState,
    ServiceStatus,
    Supervisor,
)

FOREVER = "import time; print('up', flush=True); time.sleep(600)"
DEAF = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"


class Fleet:
    """One service under supervision and all it was seen to do."""

    def __init__(self, folder: Path, code: str) -> None:
        self.log = folder / "one.log"
        self.seen: list[ServiceStatus] = []
        self._lock = threading.Lock()
        service = Service("one", (sys.executable, "-c", code), self.log)
        self.supervisor = Supervisor([service], folder / "run", observe=self._observe)

    def _observe(self, status: ServiceStatus) -> None:
        with self._lock:
            self.seen.append(status)

    @property
    def status(self) -> ServiceStatus:
        return self.supervisor.status()[0]

    def wait_for(self, condition: Callable[[ServiceStatus], bool], what: str) -> ServiceStatus:
        wait(lambda: condition(self.status), 20, what)
        return self.status

    def wait_until_up(self) -> ServiceStatus:
        wait(lambda: self.log.exists() and "up" in self.log.read_text(), 20, "the service is up")
        return self.wait_for(lambda status: status.state is ServiceState.RUNNING, "it is running")


@contextmanager
def fleet(folder: Path, code: str):
    one = Fleet(folder, code)
    with one.supervisor:
        yield one


@pytest.mark.parametrize(("code", "state"), [(0, ServiceState.DONE), (2, ServiceState.DOWN), (3, ServiceState.DOWN)])
def test_an_exit_that_is_final_is_not_restarted(tmp_path, code, state):
    """0 is done; 2 and 3 stay down, and say so."""
    with fleet(tmp_path, f"raise SystemExit({code})") as one:
        status = one.wait_for(lambda status: status.state is state, f"it is {state}")
    assert (status.last_exit, status.restarts, status.pid) == (code, 0, None)


def test_exit_1_is_restarted(tmp_path):
    """Retry me: with a growing delay, and counted."""
    with fleet(tmp_path, "raise SystemExit(1)") as one:
        status = one.wait_for(lambda status: status.restarts >= 2, "it was restarted twice")
        assert status.last_exit == 1
    assert one.status.state is ServiceState.STOPPED


def test_a_killed_service_comes_back(tmp_path):
    """SIGKILL is a crash like any other."""
    with fleet(tmp_path, FOREVER) as one:
        first = one.wait_until_up().pid
        one.supervisor.kill("one")
        back = one.wait_for(lambda status: status.pid not in (first, None), "it is back")
        assert (back.restarts, back.last_exit) == (1, -SIGKILL)


def test_stop_ends_in_order(tmp_path):
    """SIGTERM is enough for a service that listens; nothing is restarted after it."""
    with fleet(tmp_path, FOREVER) as one:
        pid = one.wait_until_up().pid
    assert not psutil.pid_exists(pid)
    assert [status.state for status in one.seen] == [ServiceState.RUNNING, ServiceState.STOPPED]


def test_stop_kills_who_does_not_listen(tmp_path):
    """The deadline is kept."""
    one = Fleet(tmp_path, DEAF)
    one.supervisor.start()
    pid = one.wait_until_up().pid
    one.supervisor.stop(deadline_seconds=0.3)
    assert not psutil.pid_exists(pid)
    assert one.status.last_exit == -SIGKILL


def test_a_leftover_is_ended_before_the_start(tmp_path):
    """The service of a supervisor that was killed does not run beside its successor."""
    argv = (sys.executable, "-c", FOREVER)
    with psutil.Popen(argv) as leftover:
        (tmp_path / "run").mkdir()
        Identity.of(leftover.pid, argv).write(tmp_path / "run" / "one.pid.json")
        wait(lambda: "sleep" in " ".join(leftover.cmdline()), 10, "it has become its program")
        with fleet(tmp_path, FOREVER) as one:
            one.wait_until_up()
            assert leftover.wait(5) is not None
