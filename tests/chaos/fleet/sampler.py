"""O4: ten times a second, what may never go wrong for a moment: confirmed ≤ lowest ack, and neither ever goes back.

The order of reading is the proof: first what is confirmed, then the acks, which only grow, then the ends of the topics.
So whatever is confirmed in a sample was acked before it, and was committed in the topics before it.

Invariant: what can't be read (a server is down) makes no sample, never a verdict.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import redis
from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tidegate.contracts import names
from tidegate.contracts.ack import Ack, decode_ack
from tidegate.errors import DecodeError
from tidegate.lsn import parse_lsn

_EVERY_SECONDS = 0.1
_CALL_SECONDS = 2.0
_SLOT = """
SELECT confirmed_flush_lsn::text, pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint,
       extract(epoch FROM pg_postmaster_start_time())::text
FROM pg_replication_slots WHERE slot_name = %s
"""


@dataclass(frozen=True, slots=True)
class Sample:
    time: float
    server: str
    """Which run of PostgreSQL: over a crash the slot may go back to its last checkpoint."""
    confirmed: int
    held_bytes: int
    acks: Mapping[str, Ack]
    ends: Mapping[tuple[str, int], int]


@dataclass
class Figures:
    samples: int = 0
    held_bytes: int = 0
    resident_bytes: dict[str, int] = field(default_factory=dict)


class Sampler(threading.Thread):
    def __init__(
        self,
        *,
        dsn: str,
        redis_url: str,
        bootstrap: str,
        pipeline: str,
        partitions: Callable[[], Iterable[tuple[str, int]]],
        processes: Callable[[], Mapping[str, int]],
    ) -> None:
        super().__init__(name="sampler", daemon=True)
        self.figures = Figures()
        self._dsn, self._pipeline = dsn, pipeline
        self._redis = redis.Redis.from_url(redis_url, socket_timeout=_CALL_SECONDS)
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._partitions, self._processes = partitions, processes
        self._lock, self._ending = threading.Lock(), threading.Event()
        self._samples: list[Sample] = []
        self._link: psycopg.Connection[tuple[str, int, str]] | None = None
        self._generation = ""

    def stop(self) -> None:
        self._ending.set()
        if self.ident is not None:
            self.join(10)

    def take(self) -> list[Sample]:
        with self._lock:
            samples, self._samples = self._samples, []
            return samples

    def run(self) -> None:
        while not self._ending.wait(_EVERY_SECONDS):
            try:
                sample = self._sample()
            except (psycopg.Error, redis.RedisError, KafkaException, OSError, TimeoutError):
                self._forget_link()
                continue
            if sample is not None:
                with self._lock:
                    self._samples.append(sample)
                self._count(sample)
        self._forget_link()

    def _sample(self) -> Sample | None:
        if self._link is None:
            self._link = psycopg.connect(self._dsn, autocommit=True, connect_timeout=2)
        row = self._link.execute(_SLOT, [f"tidegate_{self._pipeline}"]).fetchone()
        if row is None or row[0] is None:
            return None
        acks = self._acks()
        asked = {TopicPartition(*each): OffsetSpec.latest() for each in self._partitions()}
        answers = (
            self._admin.list_offsets(
                asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_CALL_SECONDS
            )
            if asked
            else {}
        )
        ends = {(each.topic, each.partition): answer.result(_CALL_SECONDS).offset for each, answer in answers.items()}
        return Sample(time.monotonic(), row[2], int(parse_lsn(row[0])), row[1], acks, ends)

    def _acks(self) -> dict[str, Ack]:
        if not self._generation:
            keys = self._redis.keys(names.ack_key(self._pipeline, "*"))
            assert isinstance(keys, list)
            if len(keys) != 1:
                return {}
            self._generation = keys[0].decode().split(":")[2]
        found = self._redis.hgetall(names.ack_key(self._pipeline, self._generation))
        assert isinstance(found, dict)
        acks = {}
        for sink, value in found.items():
            with suppress(DecodeError):
                acks[sink.decode()] = decode_ack(value, sink=sink.decode(), generation=self._generation)
        return acks

    def _count(self, sample: Sample) -> None:
        self.figures.samples += 1
        self.figures.held_bytes = max(self.figures.held_bytes, sample.held_bytes)
        for name, pid in self._processes().items():
            known = self.figures.resident_bytes.get(name, 0)
            self.figures.resident_bytes[name] = max(known, resident_bytes(pid))

    def _forget_link(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None


def resident_bytes(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(found[0]) * 1024 if found else 0
