"""What one session has found: figures by workload, or why there are none.

Invariant: a workload in which an event was lost, overtaken, foreign or came again has figures of completeness and no
others: a clock that counts events stops early for one that comes twice.
"""

from dataclasses import dataclass, field
from enum import StrEnum


class Figure(StrEnum):
    """Names in results; what they mean stands in `MEANINGS`."""

    RATE = "events_per_second"
    SHARE_OF_LIMIT = "share_of_limit"
    LIMIT_RATE = "limit_events_per_second"
    LIMIT_CPU = "limit_cpu_seconds_per_million"
    CPU = "cpu_seconds_per_million"
    BROKER_CPU = "broker_cpu_seconds_per_million"
    SOURCE_CPU = "source_cpu_seconds_per_million"
    RSS = "rss_peak_mb"
    WAL_HELD = "wal_held_peak_mb"
    KAFKA_BYTES = "kafka_bytes_per_event"
    P50 = "commit_to_consumer_p50_ms"
    P90 = "commit_to_consumer_p90_ms"
    P99 = "commit_to_consumer_p99_ms"
    WRITTEN_RATE = "written_per_second"
    START = "start_seconds"
    RECOVERY = "recovery_seconds"
    DOUBLED_BY_KILL = "events_doubled_by_kill"


MEANINGS = {
    Figure.RATE: "events a second, from the intake going on to the last event committed in its topic",
    Figure.SHARE_OF_LIMIT: "what pg_recvlogical needs for the same WAL, over what the contestant needed",
    Figure.LIMIT_RATE: "events a second of pg_recvlogical to /dev/null on this WAL",
    Figure.LIMIT_CPU: "CPU-seconds of pg_recvlogical a million events, without the server's",
    Figure.CPU: "CPU-seconds a million events: all processes of the contestant, without broker and source",
    Figure.BROKER_CPU: "CPU-seconds of the broker a million events",
    Figure.SOURCE_CPU: "CPU-seconds of PostgreSQL a million events",
    Figure.RSS: "highest resident memory of all its processes together",
    Figure.WAL_HELD: "most WAL that its slot kept from being removed",
    Figure.KAFKA_BYTES: "bytes written to Kafka an event, a raw topic included",
    Figure.P50: "commit to consumer, median",
    Figure.P90: "commit to consumer, 90 % within",
    Figure.P99: "commit to consumer, 99 % within",
    Figure.WRITTEN_RATE: "events a second that were really written",
    Figure.START: "first process started to first event at the consumer",
    Figure.RECOVERY: "kill -9 of all its processes and start at once, to the first new event at the consumer",
    Figure.DOUBLED_BY_KILL: "events that came again after that",
}


@dataclass
class Phase:
    name: str
    figures: dict[str, float] = field(default_factory=dict)
    expected: int = 0
    lost: int = 0
    doubled: int = 0
    overtaken: int = 0
    problem: str = ""
    others_share: float = 0.0
    is_noisy: bool = False

    @property
    def is_complete(self) -> bool:
        return not (self.lost or self.overtaken or self.problem)


@dataclass
class SessionResult:
    contestant: str
    server: str
    round: int
    phases: list[Phase] = field(default_factory=list)
    problem: str = ""
