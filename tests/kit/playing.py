"""Plays a reader and its lanes for the admin service: statuses twice a second, acks and frames, by the contracts."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kit.admin_process import AdminPlace
from kit.frames import RawLog, row
from kit.topics import append

from tidegate.clock import unix_microseconds
from tidegate.contracts import names
from tidegate.contracts.ack import Ack
from tidegate.contracts.status import LaneStatus, ReaderStatus, State
from tidegate.lsn import Lsn, parse_lsn

_EVERY_SECONDS = 0.5
POSTGRES_EPOCH = 946_684_800_000_000
"""The year 2000, in unix microseconds."""


@dataclass
class Play:
    place: AdminPlace
    log: RawLog = field(default_factory=RawLog)
    stopped: frozenset[str] = frozenset()
    """Lanes that ack nothing more."""
    paused: frozenset[str] = frozenset()
    """Lanes that say so."""
    _acked: dict[str, Ack] = field(default_factory=dict)
    _written: int = 0
    _events: int = 0
    _started: int = field(default_factory=unix_microseconds)

    def write(self, count: int = 1) -> None:
        """So many transactions of two rows, at LSNs that the source has."""
        self.log.safe_lsn = max(self.log.safe_lsn, self._source())
        for _ in range(count):
            self._events += 2
            rows = row(self._events, "two teas"), row(self._events + 1, "a pot of coffee")
            self.log.transaction(*rows, commit_time=unix_microseconds() - POSTGRES_EPOCH)
        frames = self.log.frames[self._written :]
        append(self.place.bootstrap, self.place.config.raw_topic.name, frames)
        self._written = len(self.log.frames)

    def report(self) -> None:
        now, pipeline, generation = unix_microseconds(), self.place.config.pipeline, self.log.generation.id
        acks = [self._ack(sink.name, now) for sink in self.place.config.sinks]
        required = [ack for ack in acks if ack.sink in self.place.config.required_sinks]
        lowest = min(required, key=lambda ack: ack.safe_lsn)
        common: dict[str, Any] = {
            "pipeline": pipeline,
            "state": State.RUNNING,
            "pid": 1,
            "time": now,
            "started": self._started,
        }
        reader = ReaderStatus(
            **common, generation=generation, epoch=1, produced_lsn=self.log.safe_lsn, raw_offset=self._written - 1,
            server_lsn=max(self._source(), self.log.safe_lsn), confirmed_lsn=lowest.safe_lsn, changes=self._events,
            gate_holder=lowest.sink if lowest.safe_lsn < self.log.safe_lsn else None,
        )  # fmt: skip
        self.place.redis.set(names.reader_status_key(pipeline), reader.encode())
        for ack in acks:
            told = common | {"state": State.PAUSED if ack.sink in self.paused else State.RUNNING}
            lane = LaneStatus(
                **told, sink=ack.sink, incarnation=1, generation=generation, events=self._events,
                last_commit_time=now, latency_p50_seconds=0.004, latency_p99_seconds=0.011,
                latency_time=now,
            )  # fmt: skip
            self.place.redis.set(names.lane_status_key(pipeline, ack.sink), lane.encode())
            self.place.redis.hset(names.ack_key(pipeline, generation), ack.sink, ack.encode())

    def _ack(self, sink: str, now: int) -> Ack:
        if sink not in self.stopped or sink not in self._acked:
            log = self.log
            made = Ack(sink, log.generation.id, 1, "topic", self._written - 1, log.position, log.safe_lsn, now)
            self._acked[sink] = made
        return self._acked[sink]

    def _source(self) -> Lsn:
        found = self.place.source.execute("SELECT pg_current_wal_lsn()::text").fetchone()
        assert found is not None
        return parse_lsn(found[0])


@contextmanager
def playing(place: AdminPlace) -> Iterator[Play]:
    play, ended = Play(place), threading.Event()
    play.log.epoch()
    play.write(3)
    play.report()

    def keep() -> None:
        while not ended.wait(_EVERY_SECONDS):
            play.report()

    thread = threading.Thread(target=keep, name="playing")
    thread.start()
    try:
        yield play
    finally:
        ended.set()
        thread.join(10)
