"""Names of all faults, how often a swarm enables them, and the errors that models raise as the real edges would.

`gone` faults may destroy what nobody else has: after one of them LOST is allowed, and only then.
"""

from enum import StrEnum

from tidegate.errors import TidegateError
from tidegate_reader.sources.postgres_wal.failures import link_broken, refused_command


class Fault(StrEnum):
    # PostgreSQL and its link
    PG_CRASH = "pg_crash"
    LINK_RESET = "link_reset"
    HALF_OPEN = "half_open"
    SLOT_DROPPED = "slot_dropped"
    SLOT_RECREATED = "slot_recreated"
    SLOT_ADVANCED = "slot_advanced"
    SERVER_RESTORED = "server_restored"
    SERVER_SWAPPED = "server_swapped"
    STANDBY_PROMOTED = "standby_promoted"
    # reader
    READER_KILL = "reader_kill"
    READER_STOP = "reader_stop"
    READER_ZOMBIE = "reader_zombie"
    # Kafka raw topic
    PRODUCE_LOST = "produce_lost"
    ANSWER_LOST = "answer_lost"
    PRODUCE_LATE = "produce_late"
    TOPIC_TRIMMED = "topic_trimmed"
    TOPIC_RECREATED = "topic_recreated"
    TOPIC_WIPED = "topic_wiped"
    # Redis
    REDIS_DOWN = "redis_down"
    REDIS_ROLLED_BACK = "redis_rolled_back"
    REDIS_LOST = "redis_lost"
    REDIS_MIXED = "redis_mixed"
    STOP_OF_LONG_AGO = "stop_of_long_ago"
    # processor
    WORKER_KILL = "worker_kill"
    TWO_INCARNATIONS = "two_incarnations"
    SEAM = "seam"
    SPARK_REPLAY = "spark_replay"
    LANE_PAUSED = "lane_paused"
    REWIND = "rewind"
    # sinks
    SINK_REFUSES = "sink_refuses"
    SINK_ERRS_LATE = "sink_errs_late"
    SINK_HOLDS = "sink_holds"
    REJECTED_ROWS = "rejected_rows"
    # the file, while services run
    SINK_ADDED = "sink_added"
    SINK_REMOVED = "sink_removed"


RARE = frozenset(
    {
        Fault.SLOT_DROPPED,
        Fault.SLOT_RECREATED,
        Fault.SLOT_ADVANCED,
        Fault.SERVER_RESTORED,
        Fault.SERVER_SWAPPED,
        Fault.STANDBY_PROMOTED,
        Fault.TOPIC_RECREATED,
        Fault.TOPIC_WIPED,
    }
)
"""At most one of these a run: each may end it."""


OF_THE_FILE = (Fault.SINK_ADDED, Fault.SINK_REMOVED)
"""By hand, and no fault: drawn by dice of their own."""

DRAWN_APART = (*OF_THE_FILE, Fault.STOP_OF_LONG_AGO)
"""By dice of their own: steps that were planned before there were such faults stay as they were."""


def broken_link() -> TidegateError:
    return link_broken()


def refused(command: str, sqlstate: str, text: str) -> TidegateError:
    return refused_command(command, sqlstate, text)
