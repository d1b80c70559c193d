"""`tidegate demo` as a person runs it: a command, its output, its exit code, and what it leaves behind."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit.wait import wait

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

COMMAND = Path(sys.executable).with_name("tidegate")
FIRST_EVENT_SECONDS = 120
BACK_SECONDS = 60


class Demo:
    def __init__(self, process: "subprocess.Popen[bytes]", state: Path, folder: Path) -> None:
        self.process, self.state, self._folder = process, state, folder

    @property
    def out(self) -> str:
        return (self._folder / "out").read_text()

    @property
    def err(self) -> str:
        return (self._folder / "err").read_text()

    def wait_for_first_event(self) -> None:
        self._wait(lambda: "first event after" in self.out, FIRST_EVENT_SECONDS, "the first event")

    def pid(self, service: str) -> int | None:
        try:
            return int(json.loads((self.state / "run" / f"{service}.pid.json").read_text())["pid"])
        except (OSError, ValueError):
            return None

    def kill_and_wait_until_back(self, service: str) -> None:
        killed = self.pid(service)
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        self._wait(lambda: self.pid(service) not in (None, killed), BACK_SECONDS, f"{service} is back")

    def end(self, seconds: float) -> int:
        return self.process.wait(seconds)

    def figure(self, name: str) -> int:
        found = re.search(rf"^{name} +(\d+)$", self.out, re.MULTILINE)
        assert found, self.out + self.err
        return int(found[1])

    def left_behind(self) -> list[str]:
        """Command lines that still name the state directory."""
        wanted = str(self.state).encode()
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = path.read_bytes()
            except OSError:
                continue
            if wanted in line:
                found.append(line.replace(b"\0", b" ").decode(errors="replace"))
        return found

    def _wait(self, condition, seconds: float, what: str) -> None:
        wait(lambda: condition() or self.process.poll() is not None, seconds, what)
        assert condition(), f"the demo ended before {what}: {self.out}{self.err}"


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kept over the tests of this file: a second start goes on where the first one ended."""
    return tmp_path_factory.mktemp("state")


@contextmanager
def demo(state: Path, folder: Path, *arguments: str) -> Iterator[Demo]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("DEMO_", "TIDEGATE_STATE"))
    }
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        process = subprocess.Popen(
            [COMMAND, "demo", "--state", state, *arguments], stdout=out, stderr=err, env=environment
        )
        try:
            yield Demo(process, state, folder)
        finally:
            process.kill()
            process.wait()


def test_every_service_may_be_killed_and_nothing_is_lost(state: Path, tmp_path: Path) -> None:
    """Reader, admin and processor are killed once each while the shop writes; every change arrives once, in order."""
    with demo(state, tmp_path, "--seconds", "25") as run:
        run.wait_for_first_event()
        for service in ("reader", "admin", "processor"):
            run.kill_and_wait_until_back(service)
        code = run.end(200)
        assert (code, run.figure("lost")) == (0, 0), run.out + run.err
        assert run.figure("out of order") == run.figure("duplicates") == run.figure("wrong") == 0
        assert run.figure("delivered") == run.figure("written") > 100
        assert run.figure("restarts") == 3
        assert run.left_behind() == []


def test_ctrl_c_waits_for_what_is_on_its_way_and_leaves_nothing_behind(state: Path, tmp_path: Path) -> None:
    """One Ctrl-C: a summary, exit 0, no process."""
    with demo(state, tmp_path) as run:
        run.wait_for_first_event()
        run.process.send_signal(signal.SIGINT)
        assert run.end(120) == 0, run.out + run.err
        assert run.figure("lost") == 0
        assert run.figure("delivered") > 0
        assert run.left_behind() == []


def test_two_demos_do_not_share_a_state_directory(state: Path, tmp_path: Path) -> None:
    """The second one is refused with the remedy, and the first does not notice."""
    (tmp_path / "second").mkdir()
    with demo(state, tmp_path) as run, demo(state, tmp_path / "second") as second:
        wait(lambda: (state / "run.lock").exists(), 10, "the first one holds the directory")
        codes = wait(
            lambda: [p.poll() for p in (run.process, second.process) if p.poll() is not None], 30, "one gives up"
        )
        assert codes == [2]
        loser = second if second.process.poll() is not None else run
        assert "--state" in loser.err
