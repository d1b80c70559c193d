"""What a service says of itself every second: for people, dashboards and the watch over silent lanes.

Nothing about delivery is decided by a status. One older than `STALE_SECONDS` means that its writer is gone or stuck.
"""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Self

from tidegate.contracts.document import SHORT_BYTES, build, load
from tidegate.errors import DecodeError, StreamError

STALE_SECONDS = 5.0
RECENT_SECONDS = 60.0
"""For how long a latency is told as that of now: longer than between two looks at metrics, shorter than an alert."""


class State(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"
    DRAINED = "drained"
    PAUSED = "paused"
    """A lane that somebody has asked to stand: said by its driver. The gate waits for it."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Failure:
    kind: str
    code: str
    message: str
    remedy: str

    @property
    def is_for_a_person(self) -> bool:
        """LOST: nothing starts by itself what has failed so."""
        return self.kind in (StreamError.__name__, DecodeError.__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Status:
    pipeline: str
    state: State
    pid: int
    time: int
    """Unix microseconds of this report."""
    started: int
    failure: Failure | None = None

    def encode(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True).encode()

    @classmethod
    def decode(cls, value: bytes) -> Self:
        try:
            document = load(value, limit=SHORT_BYTES)
            failure = document["failure"]
            document["state"] = State(str(document["state"]))
            document["failure"] = None if failure is None else build(Failure, failure)
            return build(cls, document)
        except (ValueError, KeyError):
            raise DecodeError(f"this is not a {cls.__name__}", code="STATUS_MALFORMED") from None

    def is_stale(self, now_microseconds: int) -> bool:
        return now_microseconds - self.time > STALE_SECONDS * 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderStatus(_Status):
    generation: str = ""
    epoch: int = 0
    server_lsn: int = 0
    """End of the server's WAL as of its last message."""
    received_lsn: int = 0
    raw_offset: int = -1
    """Last offset acknowledged by the broker."""
    produced_lsn: int = 0
    """safe_lsn of the last acknowledged frame: nothing above it is ever confirmed."""
    confirmed_lsn: int = 0
    gate_holder: str | None = None
    """The required sink whose ack is lowest while it is behind, else none."""
    frames: int = 0
    changes: int = 0
    bytes: int = 0
    in_flight_bytes: int = 0
    wal_held_bytes: int = 0
    safe_wal_bytes: int | None = None
    """How much more WAL may be written before the server gives the slot up; none = no limit is set."""
    resnapshot: str = ""
    """Id of the snapshot that is owed for a gap, until all of it is in the raw topic; empty if none is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneStatus(_Status):
    sink: str
    incarnation: int
    config_epoch: str = ""
    waits_for: str = ""
    """What has to happen before the lane can go on; empty if nothing has to."""
    trigger: str = ""
    """By which this incarnation runs: `realtime` or `batch`."""
    spark_ui: str = ""
    """Where Spark's page about the lane's query is; empty if there is none."""
    generation: str = ""
    epoch: int = 0
    raw_offset: int = -1
    """Last frame durable in the sink."""
    position: str = ""
    safe_lsn: int = 0
    frames: int = 0
    events: int = 0
    dead_letters: int = 0
    bytes: int = 0
    write_seconds: float = 0.0
    """Spent on decoding, transforming, encoding and handing over, by this incarnation."""
    commit_seconds: float = 0.0
    """Spent on waiting until it was durable."""
    last_commit_time: int = 0
    """Commit time, in unix microseconds, of the newest delivered change."""
    latency_p50_seconds: float = 0.0
    """Commit to durable in the sink, over the last reporting interval that delivered anything."""
    latency_p99_seconds: float = 0.0
    latency_time: int = 0
    """Unix microseconds of the report that began to say so; 0 before anything was delivered."""
    gaps: int = 0
    """Passed by this incarnation: what lay in them came to the sink by a snapshot, or not at all."""
    is_alone: bool = False
    """Of one of several writers: it delivers the changes of all of them, and what it says is true of all."""
    dropped_spans: int = 0
    """Of sampled transactions, that no collector has taken from this incarnation."""

    def has_recent_latency(self, now_microseconds: int) -> bool:
        """Else it tells of what was delivered long ago, and nothing of a lane that stands."""
        return self.latency_time > 0 and now_microseconds - self.latency_time <= RECENT_SECONDS * 1e6
