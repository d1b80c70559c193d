"""The matrix M01 to M45: fault × where × invariants × trials. What is not built says so, here and in every report.

Invariant: every number from M01 to M45 stands here, built or with its reason.
"""

from chaos.fleet import faults, link_faults, lost_faults, server_faults, soak
from chaos.fleet.cases import Case, Variant
from chaos.fleet.links import Link

from tidegate.failpoints import Failpoint

EVERYTHING = "I1–I7 I12"
_READER_POINTS = (
    (Failpoint.READER_STREAM_STARTED, 1, 0),
    (Failpoint.READER_EPOCH_BEGUN, 1, 0),
    (Failpoint.READER_RECEIVED, 20, 0),
    (Failpoint.READER_SENT, 20, 0),
    (Failpoint.READER_PRODUCED, 20, 1),
    (Failpoint.READER_ACKS_READ, 10, 0),
    (Failpoint.READER_STATUS_DUE, 10, 1),
    (Failpoint.READER_STATUS_SENT, 10, 0),
)
_LANE_POINTS = (
    (Failpoint.LANE_STARTING, 1, 0),
    (Failpoint.LANE_FENCED, 1, 0),
    (Failpoint.LANE_WRITTEN, 10, 0),
    (Failpoint.LANE_CURSOR_SENT, 10, 1),
    (Failpoint.LANE_COMMITTED, 10, 1),
    (Failpoint.LANE_ACKED, 10, 0),
)


def _link_variants() -> list[Variant]:
    return [
        Variant(f"{link}, {kind}", link_faults.faulty(link, kind), nightly=4)
        for link in Link
        for kind in link_faults.KINDS
    ] + [Variant(f"{link}, flapping", link_faults.flapping(link), nightly=4) for link in Link]


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
    Case("M02", "kill -9 of the reader every 0.3 to 3 s", EVERYTHING, (Variant("storm", faults.reader_storm, 1, 10),)),
    Case(
        "M03",
        "interleaved transactions, reader killed between their commits",
        EVERYTHING,
        (Variant("two sessions", faults.interleaved, quick=1, nightly=30),),
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
            Variant("dropped", lost_faults.slot_dropped, nightly=4, lost=True),
            Variant("made anew", lost_faults.slot_made_anew, nightly=4, lost=True),
            Variant("invalidated", lost_faults.slot_invalidated, nightly=4, lost=True),
        ),
        missing="another cluster on the port and a restored database are services/reader/tests",
    ),
    Case("M07", "promoted standby", "I8, or I1 I7", missing="needs two servers; tried by the simulator only"),
    Case("M08", "publication changed under load", "I1 I8", missing="services/reader/tests (test_publications)"),
    Case(
        "M09",
        "foreign WAL beside idle tables",
        "I9",
        (Variant("busy neighbour", server_faults.foreign_wal, quick=1, nightly=10),),
    ),
    Case(
        "M10",
        "raw topic trimmed, deleted, compacted",
        "I1 I8, repetition by id only",
        (
            Variant("trimmed by delete_records", server_faults.log_trimmed, nightly=20),
            Variant("deleted", server_faults.log_deleted, nightly=10),
            Variant("set to compact", server_faults.log_compacted, nightly=6),
        ),
    ),
    Case(
        "M11",
        "brokers killed and frozen",
        EVERYTHING,
        (
            Variant("one broker, kill -9", server_faults.killed("kafka"), quick=1, nightly=40),
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
            Variant("kill -9", server_faults.killed("redis"), quick=1, nightly=60),
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
    Case("M16", "snapshot under writes", "I6", missing="snapshots have not landed"),
    Case("M17", "open and prepared transactions", "I7", missing="services/reader/tests (test_trials)"),
    Case("M18", "uninstall", "no orphan slot", missing="make test-compose and test-helm"),
    Case(
        "M19",
        "PostgreSQL stopped fast, with the sink blocked and without",
        "I9, then I1–I7",
        (Variant("pg_ctl stop -m fast", server_faults.postgres_stopped_fast, quick=1, nightly=25),),
    ),
    Case(
        "M20",
        "kill -9 of Spark's driver and worker, at any time and at the lane's failpoints",
        EVERYTHING,
        (
            Variant("driver and all", faults.processor_killed, quick=1, nightly=30),
            Variant("worker", faults.worker_killed, nightly=30),
            *(
                Variant(f"worker at {point}", faults.killed_at(point, times=times), quick, 12)
                for point, times, quick in _LANE_POINTS
            ),
            Variant("held before its commit", faults.ack_held_back, quick=1, nightly=10),
        ),
        missing="executors of a cluster",
    ),
    Case(
        "M21", "sinks that reject, hold, are slow", "I1", missing="one kind of sink has landed; M12, M24 try its link"
    ),
    Case("M22", "sink down for hours, dead letters down", "I1 I9", missing="not built"),
    Case("M23", "sinks added, removed, renamed under load", "I3", missing="not built"),
    Case(
        "M24",
        "each link cut, half-open, deaf, lossy, slow, flapping",
        EVERYTHING,
        (
            Variant("any link, any fault", link_faults.any_link, quick=2, nightly=20),
            *_link_variants(),
        ),
    ),
    Case(
        "M25",
        "reader blocked by its brokers",
        "link stays, I1–I7",
        (Variant("held", link_faults.reader_blocked, nightly=10),),
        missing="for ten times wal_sender_timeout, with 1 GB behind it",
    ),
    Case(
        "M26",
        "backend terminated; PostgreSQL crashes right after acks",
        EVERYTHING,
        (
            Variant("pg_terminate_backend", faults.sender_terminated, quick=1, nightly=40),
            Variant("kill -9 after acks", server_faults.postgres_crashed_after_acks, quick=1, nightly=40),
            Variant("kill -9", server_faults.killed("postgres"), nightly=30),
        ),
    ),
    Case("M27", "password, role, pg_hba, limits", "B5", missing="services/reader/tests (test_refusals)"),
    Case(
        "M28",
        "rows larger than a frame",
        EVERYTHING,
        (Variant("1.2 MB rows in 16 KiB frames, in every trial's load", faults.calm, nightly=2),),
        missing="128 MB and 900 MB rows",
    ),
    Case("M29", "10 M rows, 100 k savepoints in one transaction", "I10", missing="not built"),
    Case("M30", "1600 columns, 10 k tables", "I10", missing="not built"),
    Case(
        "M31",
        "hostile values, compared with the other decoder",
        "I1 I6",
        (Variant("in every trial's load", faults.calm, quick=1, nightly=4),),
        missing="every type × every setting is the codec's own tests",
    ),
    Case(
        "M32",
        "keys updated, deleted and inserted again",
        "I4 I6",
        (Variant("in every trial's load", faults.calm, 0, 2),),
    ),
    Case(
        "M33",
        "DDL within transactions",
        "I1 I6",
        (Variant("in every trial's load", faults.calm, 0, 2),),
        missing="streamed transactions, enums, schema renames",
    ),
    Case("M34", "streamed transactions", "I2 I4 I5", missing="streaming has not landed"),
    Case("M35", "two-phase commit", "I1 I2", missing="two-phase has not landed"),
    Case("M36", "partitions", "I1", missing="not built"),
    Case("M37", "identities, column lists, row filters", "preflight", missing="services/reader/tests"),
    Case("M38", "Spark's checkpoint lost", "I1", (Variant("deleted", faults.checkpoint_lost, nightly=10),)),
    Case(
        "M39",
        "SIGTERM at any time",
        "exit 0, I1–I7",
        (
            Variant("reader", faults.stopped_in_order("reader"), quick=1, nightly=50),
            Variant("processor", faults.stopped_in_order("processor"), nightly=20),
        ),
    ),
    Case("M40", "clocks", "order unchanged", missing="not built (faketime)"),
    Case(
        "M41",
        "SIGSTOP and SIGCONT of each process",
        EVERYTHING,
        (
            Variant("reader", faults.frozen("reader"), quick=1, nightly=30),
            Variant("processor", faults.frozen("processor"), nightly=30),
            Variant("walsender", faults.sender_frozen, nightly=20),
        ),
        missing="up to 90 s, and pairs",
    ),
    Case("M42", "ENOSPC and EIO on every path", "stop or retry", missing="not built"),
    Case("M43", "little memory", "I10", missing="not built (cgroup)"),
    Case(
        "M44",
        "soak: 5 to 12 faults in a row, no barrier between",
        EVERYTHING,
        (Variant("any faults", soak.soak, nightly=20),),
        missing="24 hours of it",
    ),
    Case("M45", "the admin API under attack meanwhile", "latency", missing="services/admin-api/tests (test_hostile)"),
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
