"""Kills by kind: how each is done, how many there were, and how long it took until changes came through again.

Invariant: a kill counts once its process is gone; one that found nobody to kill counts for nothing.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from signal import SIGKILL
from statistics import median
from typing import TYPE_CHECKING, TypedDict

from kit.wait import wait

from tidegate.contracts import names
from tidegate.contracts.status import LaneStatus
from tidegate.lsn import parse_lsn

if TYPE_CHECKING:
    from chaos.fleet.field import Field

_TOLD_SECONDS = 60.0
_LOOK_SECONDS = 0.05


class Kind(StrEnum):
    READER = "reader"
    REDIS = "redis"
    KAFKA = "kafka"
    POSTGRES = "postgres"
    DRIVER = "spark driver"
    WORKER = "spark worker"


class OfKind(TypedDict):
    kills: int
    back_seconds: list[float]


Told = Mapping[str, OfKind]


@dataclass(slots=True)
class Kills:
    """Of one trial."""

    counts: dict[Kind, int] = field(default_factory=dict)
    back_seconds: dict[Kind, list[float]] = field(default_factory=dict)
    """Where it was waited for: from a kill until what was committed behind it was confirmed."""

    def add(self, kind: Kind) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def back(self, kind: Kind, seconds: float) -> None:
        self.back_seconds.setdefault(kind, []).append(round(seconds, 2))

    def told(self) -> Told:
        return {kind: {"kills": n, "back_seconds": self.back_seconds.get(kind, [])} for kind, n in self.counts.items()}


def summed(many: Iterable[Told]) -> dict[str, OfKind]:
    total: dict[str, OfKind] = {}
    for told in many:
        for kind, one in told.items():
            all_ = total.setdefault(kind, {"kills": 0, "back_seconds": []})
            all_["kills"] += one["kills"]
            all_["back_seconds"] += one["back_seconds"]
    return {kind: total[kind] for kind in Kind if kind in total}


def in_words(told: Told) -> str:
    return ", ".join(f"{kind} {of['kills']}" for kind, of in told.items()) or "none"


def back_in_words(of: OfKind) -> str:
    back = of["back_seconds"]
    return f"{median(back):.1f}, {max(back):.1f}" if back else ""


def kill(field: "Field", kind: Kind) -> None:
    """SIGKILL. Services are started again by their keepers, a worker by Spark; a server is for the caller to start."""
    match kind:
        case Kind.READER:
            was_there = field.reader.kill()
        case Kind.DRIVER:
            was_there = field.processor.kill()
        case Kind.WORKER:
            was_there = _kill_worker(field)
        case Kind.REDIS | Kind.KAFKA | Kind.POSTGRES:
            server = getattr(field.servers, kind)
            was_there = server.running
            server.kill()
    if was_there:
        field.kills.add(kind)


def kill_and_start(field: "Field", kind: Kind, down: Callable[[], None] = lambda: None) -> None:
    """`down` lasts while a server is away."""
    kill(field, kind)
    if kind in (Kind.REDIS, Kind.KAFKA, Kind.POSTGRES):
        down()
        getattr(field.servers, kind).start()


def kill_and_see_it_back(field: "Field", kind: Kind, down: Callable[[], None], seconds: float) -> None:
    """Until the slot is confirmed beyond what had been written when the killed one was gone: whatever it takes for
    that, each of the chain has done since. The load has to flow."""
    begun = time.monotonic()
    kill_and_start(field, kind, down)
    behind = parse_lsn(field.rig.sql("SELECT pg_current_wal_lsn()::text")[0][0])
    count = field.kills.counts.get(kind, 0)

    def is_back() -> bool:
        field.collect()
        return field.rig.confirmed() > behind

    wait(is_back, seconds, f"changes come through again after {kind} was killed {count} times", _LOOK_SECONDS)
    field.kills.back(kind, time.monotonic() - begun)


def lane_status(field: "Field") -> LaneStatus | None:
    value = field.redis.get(names.lane_status_key(field.pipeline, "events"))
    return LaneStatus.decode(value) if isinstance(value, bytes) else None


def worker(field: "Field") -> int:
    """The Python worker that serves the lane now."""

    def told() -> int:
        status = lane_status(field)
        return status.pid if status is not None and _is_worker(status.pid) else 0

    return wait(told, _TOLD_SECONDS, "the lane has told its worker's pid")


def _kill_worker(field: "Field") -> bool:
    with suppress(ProcessLookupError):
        os.kill(worker(field), SIGKILL)
        return True
    return False


def _is_worker(pid: int) -> bool:
    try:
        return b"pyspark" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
