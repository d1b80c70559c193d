"""The matrix M01 to M45: fault × where × invariants × trials. What is not built says so, here and in every report.

Invariant: every number from M01 to M45 stands here, built or with its reason.
"""

from chaos.fleet import bulk, faults, holes, link_faults, lost_faults, server_faults, snapshot_faults, storms
from chaos.fleet.cases import Alone, Case, Variant
from chaos.fleet.kills import Kind
from chaos.fleet.later_cases import EVERYTHING, LATER
from chaos.fleet.links import Link

from tidegate.failpoints import Failpoint

_READER_POINTS = (
    (Failpoint.READER_STREAM_STARTED, 1, 0),
    (Failpoint.READER_EPOCH_BEGUN, 1, 0),
    (Failpoint.READER_RECEIVED, 20, 0),
    (Failpoint.READER_SENT, 20, 0),
    (Failpoint.READER_PRODUCED, 20, 0),
    (Failpoint.READER_ACKS_READ, 10, 0),
    (Failpoint.READER_STATUS_DUE, 10, 0),
    (Failpoint.READER_STATUS_SENT, 10, 0),
)

MATRIX = (
    Case(
        "M01",
        "kill -9 of the reader, at any time and at its failpoints",
        EVERYTHING,
        (
            Variant("any time", faults.reader_killed, quick=1, nightly=60),
            *(
                Variant(f"at {point}", faults.killed_at(point, times=times), quick, 12)
                for point, times, quick in _READER_POINTS
            ),
            Variant("at reader_goodbye", faults.reader_killed_while_it_stops, nightly=6),
        ),
    ),
    Case(
        "M02",
        "kill -9 of the reader every 0.3 to 3 s, and each time it is back",
        EVERYTHING,
        (
            Variant("storm", faults.reader_storm, 0, 10),
            Variant("again and again", storms.storm(Kind.READER), nightly=12),
        ),
    ),
    Case(
        "M03",
        "interleaved transactions, reader killed between their commits",
        EVERYTHING,
        (Variant("two sessions", faults.interleaved, nightly=30),),
    ),
    Case(
        "M04",
        "reader killed at every frame boundary",
        EVERYTHING,
        (Variant("at the n-th frame sent", faults.killed_at(Failpoint.READER_SENT, times=60), nightly=40),),
        missing="a scripted stream, frame by frame, is a trial of the reader's own tests",
    ),
    Case(
        "M05",
        "slot advanced behind our back",
        "I8",
        (Variant("by SQL", lost_faults.slot_advanced, nightly=6, lost=True),),
        missing="ask above the end",
    ),
    Case(
        "M06",
        "slot dropped, made anew, invalidated",
        "I8",
        (
            Variant("dropped", lost_faults.slot_dropped, quick=1, nightly=4, lost=True),
            Variant("made anew", lost_faults.slot_made_anew, nightly=4, lost=True),
            Variant("invalidated", lost_faults.slot_invalidated, nightly=4, lost=True),
        ),
        missing="another cluster on the port and a restored database are services/reader/tests",
    ),
    Case(
        "M07",
        "promoted standby",
        "I8",
        (Variant("the same slot on another timeline", lost_faults.standby_promoted, nightly=4, lost=True),),
        missing="two servers, the old one alive: services/reader/tests (test_failovers)",
    ),
    Case("M08", "publication changed under load", "I1 I8", missing="services/reader/tests (test_fault_trials)"),
    Case(
        "M09",
        "foreign WAL beside idle tables",
        "I9",
        (Variant("busy neighbour", server_faults.foreign_wal, nightly=10),),
    ),
    Case(
        "M10",
        "raw topic trimmed, deleted, compacted",
        "I1 I8, repetition by id only",
        (
            Variant("trimmed by delete_records", server_faults.log_trimmed, quick=1, nightly=20),
            Variant("deleted", server_faults.log_deleted, nightly=10),
            Variant("made again and longer while the lane stands", server_faults.log_made_again, nightly=10),
            Variant("set to compact", server_faults.log_compacted, nightly=6),
            Variant("a frame missing before another", holes.frame_missing, nightly=6),
        ),
        missing="the brokers' disk lost: the simulator (topic_wiped)",
    ),
    Case(
        "M11",
        "brokers killed and frozen",
        EVERYTHING,
        (
            Variant("one broker, kill -9", server_faults.killed(Kind.KAFKA), quick=1, nightly=40),
            Variant("kill -9, again and again", storms.storm(Kind.KAFKA), nightly=20),
            Variant("one broker, frozen", server_faults.frozen("kafka"), nightly=20),
        ),
        missing="three brokers: leader chase, not enough replicas, unclean election",
    ),
    Case(
        "M12",
        "answers to produce requests lost",
        EVERYTHING,
        (
            Variant("reader", link_faults.faulty(Link.READER_KAFKA, "answers lost"), quick=1, nightly=30),
            Variant("processor", link_faults.faulty(Link.PROCESSOR_KAFKA, "answers lost"), nightly=30),
            Variant("frames refused", server_faults.log_refuses, nightly=20),
        ),
    ),
    Case(
        "M13",
        "two readers at once, the first wakes when the second owns the slot",
        EVERYTHING,
        (Variant("frozen and thawed", faults.reader_doubled, quick=1, nightly=30),),
    ),
    Case(
        "M14",
        "Redis killed, emptied, set back, full, frozen",
        EVERYTHING,
        (
            Variant("kill -9", server_faults.killed(Kind.REDIS), quick=1, nightly=60),
            Variant("kill -9, again and again", storms.storm(Kind.REDIS), nightly=4),
            Variant("FLUSHALL", server_faults.redis_emptied, quick=1, nightly=40),
            Variant("FLUSHALL while the lane stands", server_faults.redis_emptied_while_the_lane_stands, nightly=20),
            Variant("set back to a copy", server_faults.redis_set_back, nightly=20),
            Variant("full", server_faults.redis_full, nightly=10),
            Variant("frozen", server_faults.frozen("redis"), nightly=20),
        ),
        missing="failover to a stale replica, disk full",
    ),
    Case(
        "M15",
        "answers of Redis late, connections ended in the middle",
        EVERYTHING,
        (Variant("late and cut", link_faults.acks_slow_and_cancelled, nightly=20),),
        missing="cancellation at each await is services/reader/tests (test_acks)",
    ),
    Case(
        "M16",
        "snapshots under writes: taken, paused, resumed, cancelled, and everybody killed",
        "I1 I2 I4–I7",
        (
            Variant("paused, resumed, cancelled at any time", snapshot_faults.toyed_with, quick=1, nightly=50),
            Variant("asked for, and all die", snapshot_faults.read_while_all_dies, nightly=40),
            Variant("a large table for a new pipeline, ten kills", Alone(bulk.read_under_kills, bulk.settings), 0, 20),
        ),
    ),
    Case(
        "M17",
        "a transaction that stays open",
        "I1 I9",
        (Variant("while all else flows", faults.left_open, nightly=6),),
        missing="prepared ones, slots that wait for one: services/reader/tests (test_trials)",
    ),
    Case("M18", "uninstall", "no orphan slot", missing="make test-compose and test-helm"),
    Case(
        "M19",
        "PostgreSQL stopped fast, with the sink blocked and without",
        "I9, then I1–I7",
        (Variant("pg_ctl stop -m fast", server_faults.postgres_stopped_fast, nightly=25),),
    ),
    *LATER,
)


def chosen(number: str) -> tuple[Case, ...]:
    """All of them, or the one: `M13`, or `M24:dripping` for the variants with that in their name."""
    wanted, _, part = number.partition(":")
    cases = [case for case in MATRIX if wanted in ("", case.number)]
    return tuple(
        case if not part else Case(case.number, case.title, case.invariants, _named(case, part), case.missing)
        for case in cases
    )


def _named(case: Case, part: str) -> tuple[Variant, ...]:
    return tuple(variant for variant in case.variants if part in variant.name)
