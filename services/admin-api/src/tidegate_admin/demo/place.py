"""Where a fleet on one machine keeps everything: one state directory, held by one run at a time.

    STATE/  postgres/ kafka/ redis/   the servers, their data and logs
            logs/                     of the services
            run/                      pid files
            tmp/                      scratch, emptied at each start
            pipeline.yaml  ports.json

Invariant: nothing is started before the directory is locked.
"""

import fcntl
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import yaml

from tidegate.errors import ConfigError, TransientError
from tidegate.stack.server import free_port

STATE_VARIABLE = "TIDEGATE_STATE"
END_SECONDS = 120.0
"""A demo that is asked to stop still waits for what is on its way."""
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Place:
    root: Path

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def scratch(self) -> Path:
        return self.root / "tmp"

    @property
    def pipeline_file(self) -> Path:
        return self.root / "pipeline.yaml"

    @contextmanager
    def held(self) -> Iterator[None]:
        self.root.mkdir(mode=0o755, parents=True, exist_ok=True)
        with self._lock_file.open("a+") as lock:
            if not _locked(lock):
                raise ConfigError(
                    f"another tidegate runs in {self.root}",
                    code="STATE_IN_USE",
                    remedy="Stop it with `tidegate down`, or name another directory with --state.",
                )
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            shutil.rmtree(self.scratch, ignore_errors=True)
            for folder in (self.logs, self.run, self.scratch):
                folder.mkdir(exist_ok=True)
            yield

    def holder(self) -> int | None:
        """The process that holds this directory. The lock proves that it is there, so its number is not an old one."""
        try:
            with self._lock_file.open() as lock:
                return None if _locked(lock) else int(lock.read())
        except (FileNotFoundError, ValueError):
            return None

    def end(self, holder: int) -> None:
        """It stops its services and servers in order, as on Ctrl-C."""
        os.kill(holder, signal.SIGTERM)
        deadline = time.monotonic() + END_SECONDS
        while self.holder() == holder:
            if time.monotonic() > deadline:
                raise TransientError(
                    f"process {holder} has not stopped within {END_SECONDS:.0f} s",
                    code="STOP_TOO_SLOW",
                    remedy=f"Read the logs in {self.logs}, and ask again.",
                )
            time.sleep(_LOOK_SECONDS)

    @property
    def _lock_file(self) -> Path:
        return self.root / "run.lock"

    def ports(self, wanted: Mapping[str, int]) -> dict[str, int]:
        """A free port for each name: the one it had before, else the wanted one, else any."""
        path = self.root / "ports.json"
        before = _read_ports(path)
        ports = {name: free_port(before.get(name) or number) for name, number in wanted.items()}
        path.write_text(json.dumps(ports))
        return ports

    def write_pipeline(self, document: Mapping[str, Any]) -> Path:
        text = "# Written by tidegate at each start; passwords stay in their files.\n"
        self.pipeline_file.write_text(text + yaml.safe_dump(dict(document), sort_keys=False))
        return self.pipeline_file


def default_place(name: str, given: Path | None = None) -> Place:
    """`given`, else `name` in $TIDEGATE_STATE, else in the account's state directory."""
    if given is not None:
        return Place(given.expanduser().absolute())
    if base := os.environ.get(STATE_VARIABLE):
        return Place(Path(base).absolute() / name)
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Place(Path(state).absolute() / "tidegate" / name)


def shop_pipeline(place: Place, ports: Mapping[str, int], tables: Sequence[str], partitions: int) -> dict[str, Any]:
    """The demo's pipeline.yaml."""
    local = "127.0.0.1"
    return {
        "pipeline": "shop",
        "source": {
            "dsn": f"postgresql://tidegate@{local}:{ports['postgres']}/shop",
            "password": f"${{file:{place.root}/postgres/postgres.password}}",
            "publication": {"tables": [f"public.{table}" for table in tables]},
            "heartbeat": {"interval": "2s"},
        },
        "kafka": {"bootstrap": f"{local}:{ports['kafka']}"},
        "redis": {
            "url": f"redis://{local}:{ports['redis']}/0",
            "password": f"${{file:{place.root}/redis/redis.password}}",
        },
        "sinks": [{"name": "events", "type": "kafka_topics", "options": {"partitions": partitions}}],
        "reader": {"http": f"{local}:{ports['reader']}"},
        "processor": {"http": f"{local}:{ports['processor']}"},
        "admin": {"http": f"{local}:{ports['admin']}"},
        "log": {"format": "json"},
    }


def _locked(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_ports(path: Path) -> dict[str, int]:
    try:
        found = json.loads(path.read_text())
        return {str(name): int(number) for name, number in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
