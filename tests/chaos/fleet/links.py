"""The links of the fleet, each through the proxy process, and how a trial speaks to it."""

import json
import os
import socket
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from kit.wait import wait

from tidegate.stack.process import ChildProcess, Command
from tidegate.stack.server import free_port

_ANSWER_SECONDS = 10.0
_START_SECONDS = 60.0
_STOP = ((15, 2.0), (9, 2.0))


class Link(StrEnum):
    READER_POSTGRES = "reader-postgres"
    READER_KAFKA = "reader-kafka"
    READER_REDIS = "reader-redis"
    PROCESSOR_KAFKA = "processor-kafka"
    PROCESSOR_REDIS = "processor-redis"
    PROCESSOR_TARGET = "processor-target"
    """To the tables of a second sink, where a trial has one."""


ALWAYS = tuple(link for link in Link if link is not Link.PROCESSOR_TARGET)


class Links:
    """Ports first, for servers advertise them; the process once the servers' own ports are known."""

    def __init__(self, folder: Path) -> None:
        self.ports = {link: free_port() for link in Link}
        self._folder = folder
        self._control = folder / "proxy.sock"
        self._child: ChildProcess | None = None

    def start(self, targets: Mapping[Link, int]) -> None:
        # The tables of a second sink are in the same server as the source's.
        targets = {Link.PROCESSOR_TARGET: targets[Link.READER_POSTGRES], **targets}
        self._control.unlink(missing_ok=True)
        pairs = [f"{link}={self.ports[link]}:{targets[link]}" for link in Link]
        self._child = ChildProcess(
            Command(
                argv=(sys.executable, "-m", "chaos.fleet.proxy", str(self._control), *pairs),
                log=self._folder / "proxy.log",
                pid_file=self._folder / "proxy.pid.json",
                environment={"PYTHONPATH": python_path()},
            )
        )
        self._child.start()
        wait(self._control.exists, _START_SECONDS, "the proxy listens")

    def stop(self) -> None:
        if self._child is not None:
            self._child.stop(_STOP)

    def tell(self, link: Link, do: str, **details: object) -> None:
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(_ANSWER_SECONDS)
            control.connect(str(self._control))
            control.sendall(json.dumps({"link": link, "do": do, **details}).encode() + b"\n")
            assert control.recv(3) == b"ok\n", "the proxy did not obey"

    def heal(self) -> None:
        for link in Link:
            self.tell(link, "heal")


def python_path() -> str:
    """For children that start elsewhere: what this process was given, made absolute."""
    given = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    tests = str(Path(__file__).resolve().parents[2])
    return os.pathsep.join(dict.fromkeys([*(str(Path(path).resolve()) for path in given), tests]))
