"""A Kafka with a listener for each service, so that each comes through a proxy of its own; the harness comes directly.

Invariant: what a listener advertises is its proxy's port, so a client that was led astray would not get there.
"""

from pathlib import Path

from chaos.fleet.links import Link

from tidegate.stack.kafka import Kafka
from tidegate.stack.server import free_port

_LISTENERS = {"READER": Link.READER_KAFKA, "PROCESSOR": Link.PROCESSOR_KAFKA}


class ProxiedKafka(Kafka):
    def __init__(self, folder: Path, advertised: dict[Link, int]) -> None:
        super().__init__(folder)
        self.ports = {link: free_port() for link in _LISTENERS.values()}
        self._advertised = advertised

    def prepare(self) -> None:
        super().prepare()
        self._settings.write_text(self._with_listeners(self._settings.read_text()))

    def _with_listeners(self, settings: str) -> str:
        listened = "".join(f",{name}://127.0.0.1:{self.ports[link]}" for name, link in _LISTENERS.items())
        advertised = "".join(f",{name}://127.0.0.1:{self._advertised[link]}" for name, link in _LISTENERS.items())
        protocols = "".join(f",{name}:PLAINTEXT" for name in _LISTENERS)
        lines = []
        for line in settings.splitlines():
            added = {
                "listeners": listened,
                "advertised.listeners": advertised,
                "listener.security.protocol.map": protocols,
            }.get(line.partition("=")[0], "")
            lines.append(line + added)
        return "\n".join(lines) + "\n"
