"""One child process: started in a session of its own, its output in a file, its end noticed at once.

Each child has a keeper thread that starts it and lives as long as it does. That is not only for waiting: Linux sends
the parent-death signal when the *thread* that forked ends, so a child may not be started from a thread that is about
to end.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tidegate.errors import TransientError
from tidegate.stack import launch
from tidegate.stack.identity import Identity, StopSteps

LOG_KEEP_BYTES = 16 * 1024 * 1024
INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ")


@dataclass(frozen=True, slots=True)
class Account:
    """Whom a child runs as; None anywhere means the account of this process."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Command:
    """`environment` is added to the few variables a child inherits; `sweep` kills what it leaves in its group."""

    argv: tuple[str, ...]
    log: Path
    pid_file: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    account: Account | None = None
    death_signal: signal.Signals = signal.SIGTERM
    sweep: bool = False


class ChildProcess:
    """Lives from `start` to `exit_code`, once."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.exited = threading.Event()
        self._started = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._failure: OSError | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def running(self) -> bool:
        return self._process is not None and not self.exited.is_set()

    @property
    def exit_code(self) -> int | None:
        """As `subprocess` has it: negative for a signal, None while it runs."""
        return self._process.returncode if self._process and self.exited.is_set() else None

    def start(self) -> None:
        threading.Thread(target=self._keep, name=f"keeper {self.command.pid_file.stem}", daemon=True).start()
        self._started.wait()
        if self._failure:
            raise TransientError(
                f"cannot start {self.command.argv[0]}: {self._failure.strerror}",
                code="STACK_SPAWN_FAILED",
                remedy="Check that the program exists and may be run by this account.",
            ) from self._failure

    def send(self, number: signal.Signals) -> None:
        if self._process and self.running:
            self._process.send_signal(number)

    def stop(self, steps: StopSteps) -> int | None:
        for number, seconds in steps:
            if not self.running:
                break
            self.send(number)
            self.exited.wait(seconds)
        return self.exit_code

    def kill(self) -> None:
        """SIGKILL, and back when it is gone."""
        self.send(signal.SIGKILL)
        self.exited.wait()

    def _keep(self) -> None:
        try:
            self._process = self._spawn()
            Identity.of(self._process.pid, self.command.argv).write(self.command.pid_file)
        except OSError as error:
            self._failure = error
            self._abandon()
            return
        finally:
            self._started.set()
        self._await_end(self._process)

    def _spawn(self) -> "subprocess.Popen[bytes]":
        command = self.command
        account = command.account
        who = (str(account.uid), str(account.gid)) if account else ("-1", "-1")
        binding = (str(int(command.death_signal)), str(os.getpid()), *who)
        _turn_over(command.log)
        with command.log.open("ab") as log:
            return subprocess.Popen(  # noqa: S603
                [sys.executable, "-I", "-S", launch.__file__, *binding, *command.argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=command.folder,
                env=child_environment(command.environment),
                start_new_session=True,  # Ctrl-C goes to the parent alone, which then stops in order
            )

    def _await_end(self, process: "subprocess.Popen[bytes]") -> None:
        # Not reaped yet, so neither the pid nor the group's number can have come round again.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        if self.command.sweep:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self.command.pid_file.unlink(missing_ok=True)
        self.exited.set()

    def _abandon(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
        self.exited.set()


def child_environment(added: Mapping[str, str]) -> dict[str, str]:
    """Few variables and no more: a broker or server must not change with what happens to be set in somebody's shell."""
    return {name: os.environ[name] for name in INHERITED if name in os.environ} | dict(added)


def tail(log: Path, since_bytes: int = 0, lines: int = 3) -> Sequence[str]:
    """The last lines written behind `since_bytes`; none if the file is not there."""
    try:
        with log.open("rb") as stream:
            stream.seek(since_bytes)
            return stream.read()[-4096:].decode(errors="replace").splitlines()[-lines:]
    except OSError:
        return ()


def _turn_over(log: Path) -> None:
    if log.exists() and log.stat().st_size > LOG_KEEP_BYTES:
        log.replace(log.with_name(log.name + ".1"))
