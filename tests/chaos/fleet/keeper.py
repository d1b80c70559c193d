"""Runs one service as a supervisor would, by its exit codes, but without growing delays: trials come one upon another.

Invariant: at most one process of the service is this keeper's, and with it ends whatever it started.
"""

import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM, Signals

from kit.wait import wait

from tidegate.errors import ExitCode
from tidegate.stack.process import ChildProcess, Command

_AGAIN_SECONDS = 0.2
_STOP_SECONDS = 20.0
_FINAL = (ExitCode.CONFIGURATION, ExitCode.LOST)


class Keeper:
    def __init__(self, name: str, argv: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self.exits: list[int | None] = []
        self.added: Mapping[str, str] = {}
        """To the environment of those that start from now on."""
        self.within: Sequence[str] = ()
        """What they are started behind."""
        self._command = Command(
            argv=tuple(argv),
            log=self.log,
            pid_file=folder / f"{name}.pid.json",
            environment=environment,
            folder=folder,
            sweep=True,
        )
        self._wanted = threading.Event()
        self._ending = threading.Event()
        self._child: ChildProcess | None = None
        self._thread: threading.Thread | None = None

    @property
    def pid(self) -> int | None:
        child = self._child
        return child.pid if child is not None and child.running else None

    @property
    def is_down(self) -> bool:
        """A person has to act."""
        return bool(self.exits) and self.exits[-1] in _FINAL and self.pid is None

    def start(self) -> None:
        self._ending.clear()
        self._thread = threading.Thread(target=self._keep, name=f"keeper of {self.name}", daemon=True)
        self._thread.start()
        wait(lambda: self.pid is not None, 10, f"{self.name} has a process")

    def end(self, number: Signals = SIGTERM) -> int | None:
        """For good, until it is started again; what it ended with."""
        self._ending.set()
        child, thread = self._child, self._thread
        if child is not None and child.running:
            child.stop(((number, _STOP_SECONDS), (SIGKILL, 5.0)))
        if thread is not None:
            thread.join(_STOP_SECONDS)
        return child.exit_code if child is not None else None

    def kill(self) -> bool:
        """SIGKILL to it and to all it started, as when a machine goes; it is started again at once. Whether it was
        there."""
        pid = self.pid
        if pid is not None:
            with suppress(ProcessLookupError):
                os.killpg(pid, SIGKILL)
            wait(lambda: self.pid != pid, 10, f"{self.name} is gone")
        return pid is not None

    def freeze(self) -> None:
        self._signal_group(SIGSTOP)

    def thaw(self) -> None:
        self._signal_group(SIGCONT)

    def _signal_group(self, number: Signals) -> None:
        pid = self.pid
        if pid is not None:
            with suppress(ProcessLookupError):
                os.killpg(pid, number)

    def _keep(self) -> None:
        while not self._ending.is_set():
            environment = {**self._command.environment, **self.added}
            argv = (*self.within, *self._command.argv)
            child = self._child = ChildProcess(replace(self._command, argv=argv, environment=environment))
            child.start()
            child.exited.wait()
            self.exits.append(child.exit_code)
            if child.exit_code in _FINAL or child.exit_code == ExitCode.CLEAN:
                return
            self._ending.wait(_AGAIN_SECONDS)
