"""The matrix from M20 on: lanes, sinks, links, rows and their shapes, and everything at once.

Invariant: data only, as in `matrix.py`, of which this is a part.
"""

from chaos.fleet import (
    clock,
    clock_faults,
    faults,
    link_faults,
    memory,
    second_sink,
    server_faults,
    shape_trials,
    shapes,
    soak,
    storms,
)
from chaos.fleet.cases import Case, Variant
from chaos.fleet.kills import Kind
from chaos.fleet.links import ALWAYS, Link

from tidegate.failpoints import Failpoint

EVERYTHING = "I1–I7 I12"
_LANE_POINTS = (
    (Failpoint.LANE_STARTING, 1, 0),
    (Failpoint.LANE_FENCED, 1, 0),
    (Failpoint.LANE_WRITTEN, 10, 0),
    (Failpoint.LANE_CURSOR_SENT, 10, 1),
    (Failpoint.LANE_COMMITTED, 10, 0),
    (Failpoint.LANE_ACKED, 10, 0),
)
_LITTLE = {"reader": 256 * 2**20, "processor": 2**30}
# A source that is not there any more and does not say so, and a sink that takes everything and answers nothing.
_QUICK_LINKS = {(Link.READER_POSTGRES, "half-open"), (Link.PROCESSOR_KAFKA, "deaf")}


def _link_variants() -> list[Variant]:
    return [
        Variant(f"{link}, {kind}", link_faults.faulty(link, kind), int((link, kind) in _QUICK_LINKS), 4)
        for link in ALWAYS
        for kind in link_faults.KINDS
    ] + [Variant(f"{link}, flapping", link_faults.flapping(link), nightly=4) for link in ALWAYS]


LATER = (
    Case(
        "M20",
        "kill -9 of Spark's driver and worker, at any time and at the lane's failpoints",
        EVERYTHING,
        (
            Variant("driver and all", faults.processor_killed, quick=1, nightly=30),
            Variant("worker", faults.worker_killed, nightly=30),
            Variant("driver and all, again and again", storms.storm(Kind.DRIVER), nightly=5),
            Variant("worker, again and again", storms.storm(Kind.WORKER), nightly=10),
            *(
                Variant(f"worker at {point}", faults.killed_at(point, times=times), quick, 12)
                for point, times, quick in _LANE_POINTS
            ),
            Variant("held before its commit", faults.ack_held_back, nightly=10),
        ),
        missing="executors of a cluster",
    ),
    Case(
        "M21",
        "a second sink, tables, that is cut, holds, answers nothing, is slow",
        "I1 I3 I6, the other goes on",
        tuple(Variant(kind, second_sink.table_link(kind), nightly=4) for kind in link_faults.KINDS),
        missing="rows that it rejects and part of a batch are the sinks' own tests",
    ),
    Case(
        "M22",
        "a sink that is down for long",
        "I1 I3 I6 I9",
        (Variant("refused, and a service dies", second_sink.table_link("refused", seconds=(25, 40), dies=True), 0, 4),),
        missing="six hours of it; dead letters alone down",
    ),
    Case(
        "M23",
        "sinks added and removed under load",
        "I1 I3 I4",
        (
            Variant("added, then removed", second_sink.added_and_removed, nightly=10),
            Variant("removed while it is blocked", second_sink.removed_while_blocked, nightly=10),
        ),
        missing="same name, other target",
    ),
    Case(
        "M24",
        "each link cut, half-open, deaf, lossy, slow, flapping",
        EVERYTHING,
        (
            Variant("any link, any fault", link_faults.any_link, nightly=20),
            *_link_variants(),
        ),
    ),
    Case(
        "M25",
        "reader blocked by its brokers",
        "link stays, I1–I7",
        (Variant("held", link_faults.reader_blocked(), nightly=10),),
        missing="with 1 GB behind, for as long as 150 s: services/reader/tests (test_outages)",
    ),
    Case(
        "M26",
        "backend terminated; PostgreSQL crashes right after acks",
        EVERYTHING,
        (
            Variant("pg_terminate_backend", faults.sender_terminated, nightly=40),
            Variant("kill -9 after acks", server_faults.postgres_crashed_after_acks, quick=1, nightly=40),
            Variant("kill -9", server_faults.killed(Kind.POSTGRES), nightly=30),
            Variant("kill -9, again and again", storms.storm(Kind.POSTGRES), nightly=4),
        ),
    ),
    Case("M27", "password, role, pg_hba, limits", "B5", missing="services/reader/tests (test_fault_trials)"),
    Case(
        "M28",
        "rows larger than a frame",
        EVERYTHING,
        (Variant("1.2 MB rows in 16 KiB frames, in every trial's load", faults.calm, nightly=2),),
        missing="128 MB and 900 MB rows",
    ),
    Case(
        "M29",
        "large transactions",
        "I1 I2 I10",
        (Variant("2,000 savepoints, half of them undone", faults.giant_transaction, nightly=4),),
        missing="10 M rows, 100 k savepoints, several at once",
    ),
    Case(
        "M30",
        "tables of extreme shapes, and somebody dies while they are delivered",
        "I1 I3–I7 I9 I10",
        (
            Variant("1,600 columns, 10,000 rows", shape_trials.trial(shapes.wide), nightly=2),
            Variant("10,000 tables", shape_trials.trial(shapes.many), nightly=2),
            Variant("1,000 tables, a topic each", shape_trials.trial(shapes.many_topics), nightly=2),
            Variant("1,000 partitions", shape_trials.trial(shapes.parted), nightly=2),
        ),
        missing="10,000 topics: the tables share one",
    ),
    Case(
        "M31",
        "hostile values, compared with the other decoder",
        "I1 I6",
        (Variant("in every trial's load", faults.calm, nightly=4),),
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
    Case(
        "M36",
        "rows that move between partitions",
        "I1 I4 I6",
        (Variant("in every trial's load", faults.calm, 0, 2),),
        missing="truncate, attach, detach; published by the root",
    ),
    Case("M37", "identities, column lists, row filters", "preflight", missing="services/reader/tests"),
    Case(
        "M38",
        "Spark's checkpoint lost",
        "I1",
        (
            Variant("deleted", faults.checkpoint_lost, nightly=10),
            Variant("newest commit gone, offsets empty", faults.newest_commit_lost, nightly=10),
        ),
    ),
    Case(
        "M39",
        "SIGTERM at any time",
        "exit 0, I1–I7",
        (
            Variant("reader", faults.stopped_in_order("reader"), nightly=50),
            Variant("processor", faults.stopped_in_order("processor"), nightly=20),
        ),
    ),
    Case(
        "M40",
        "clocks that are an hour wrong, or are set while the process runs",
        EVERYTHING,
        (
            *(
                Variant(f"{of}, {said}", clock_faults.starts(of, sign), needs=clock.lacks, nightly=4)
                for of in ("reader", "processor", "postgres")
                for said, sign in (("an hour ahead", 1), ("an hour behind", -1))
            ),
            *(
                Variant(f"{of}, set {said}", clock_faults.steps(of, sign), needs=clock.lacks, nightly=4)
                for of in ("reader", "processor", "postgres")
                for said, sign in (("forward", 1), ("back", -1))
            ),
        ),
        missing="brokers and Redis by another clock; leap seconds smeared",
    ),
    Case(
        "M41",
        "SIGSTOP and SIGCONT of each process",
        EVERYTHING,
        (
            Variant("reader", faults.frozen("reader"), nightly=30),
            Variant("processor", faults.frozen("processor"), nightly=30),
            Variant("walsender", faults.sender_frozen, nightly=20),
            Variant("reader and processor", faults.both_frozen, nightly=10),
        ),
        missing="up to 90 s",
    ),
    Case(
        "M42",
        "a full disk",
        "I1 I3 I4",
        (Variant("of a sink of files", second_sink.disk_full, nightly=10),),
        missing="EIO; of the services' own scratch",
    ),
    Case(
        "M43",
        "little memory: 256 MiB for the reader, 1 GiB for the processor, under large transactions",
        "I1 I3–I7 I9 I10, nobody is killed for it",
        (
            Variant(
                "transactions of 500,000 rows and 100,000 savepoints, and somebody dies",
                shape_trials.trial(shapes.large, _LITTLE, {"processor": {"heap": "512MiB"}}),
                needs=memory.lacks,
                nightly=2,
            ),
        ),
        missing="of the source and the brokers",
    ),
    Case(
        "M44",
        "soak: 5 to 12 faults in a row, no barrier between",
        EVERYTHING,
        (Variant("any faults", soak.soak, nightly=20),),
        missing="24 hours of it",
    ),
    Case("M45", "the admin API under attack meanwhile", "latency", missing="tests/e2e (test_attack)"),
)
