"""The codec alone, on one core: what a row of ten columns and 220 bytes costs from frame to events and to columns.

Frames are made in memory, decoded from their bytes and judged outside the clock; the reference is measured in the same
run, so that its ratio to the kernels holds on a busy machine too. The clock is the process's own CPU time, and the wall
stands beside it in the ratio of the two. A contestant that gives another number of events, or other bytes, has no speed
and fails.

Memory that was freed stays with the process: a lane's frames use theirs again and again, and what the kernel takes to
clear new pages, a tenth of a microsecond a row of a frame that no lane ever sees, says nothing about the codec.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from kit.made_frames import frame_of

from bench.figures import QUICK, Figure, report
from tidegate.columns import warm
from tidegate.columns.batches import FrameDecoder
from tidegate.columns.envelopes import EventSource
from tidegate.columns.json_encode import FrameEncoder
from tidegate.columns.typed import Caster
from tidegate.contracts.frame import Frame, body_messages
from tidegate.events import Operation
from tidegate.lsn import Lsn
from tidegate.pgoutput import decode_message
from tidegate.pgoutput.messages import Begin, Column, Commit, Insert, Message, Relation, ReplicaIdentity
from tidegate.position import BEGINNING
from tidegate_processor.decode import decode_changes
from tidegate_processor.encodings.envelope import EventContext
from tidegate_processor.encodings.json import JsonPlan
from tidegate_reader.allocator import keep_freed_memory

ROUNDS = 5 if QUICK else 15
# 256 KiB, as the reader closes a frame.
FRAME_ROWS = 1_200
SIZES = (10, 1_000, 100_000) if QUICK else (10, 100, 1_000, 10_000, 100_000, 1_000_000)
ALL_MEMORY = 2**31 - 1
TABLES = 1_000
ROWS_A_TABLE = 10
SMALLEST_ROUND_ROWS = 20_000
FLAT = 1.5
"""Times what the cheapest row costs, that the dearest may."""
WALL_TO_CPU: list[float] = []
"""Of each round: 1 where nobody else wanted the core."""

COLUMNS = {
    "id": 20, "customer": 23, "price": 1700, "weight": 701, "paid": 16,
    "created": 1184, "day": 1082, "name": 1043, "note": 25, "ref": 2950,
}  # fmt: skip
NUMERIC_10_2 = (10 << 16 | 2) + 4
ORDERS = Relation(
    16384,
    "public",
    "orders",
    ReplicaIdentity.DEFAULT,
    tuple(Column(int(name == "id"), name, oid, NUMERIC_10_2 if oid == 1700 else -1) for name, oid in COLUMNS.items()),
)
SOURCE = EventSource("shop", "shopdb", 7_300_000_000_000_000_001)

# Loading means: a process that has none of it can decode. Its own start is not counted, nor who else is at work.
LOAD = "import time; a = time.process_time(); from tidegate.columns import warm; warm(); print(time.process_time() - a)"


def row(at: int) -> Insert:
    return Insert(
        ORDERS.relation_id,
        (
            b"%d" % (10**9 + at),
            b"%d" % (at % 10_000),
            b"%d.%02d" % (at % 1_000, at % 100),
            repr(at * 0.37).encode(),
            b"t" if at % 2 else b"f",
            b"2026-11-18 15:04:%02d.%06d+00" % (at % 60, at % 10**6),
            b"2026-11-18",
            b"customer %d" % at,
            b"what somebody wrote about an order, %d" % (at % 100),
            b"a0eebc99-9c0b-4ef8-bb6d-6bb9bd38%04x" % (at % 65_536),
        ),
    )


def frame(rows: int, *, rows_per_transaction: int = 10_000, tables: int = 1) -> Frame:
    relations = [replace(ORDERS, relation_id=at, name=f"orders_{at}") for at in range(tables)]
    messages: list[Message] = []
    for at in range(rows):
        lsn = Lsn(10**9 + at - at % rows_per_transaction)
        if at % rows_per_transaction == 0:
            messages.append(Begin(lsn, 847_812_345_678_901 + at, 750 + at))
        messages.append(replace(row(at), relation_id=at % tables))
        if (at + 1) % rows_per_transaction == 0 or at + 1 == rows:
            messages.append(Commit(lsn, lsn, 0))
    return frame_of(relations, messages)


def route(schema: str, table: str, _: Operation) -> str:
    return f"{SOURCE.pipeline}.{schema}.{table}"


def reference(measured: Frame) -> list[tuple[bytes | None, bytes]]:
    context = EventContext(SOURCE.pipeline, SOURCE.database, SOURCE.system_id)
    plans: dict[int, JsonPlan] = {}
    events = []
    for change in decode_changes(measured, BEGINNING):
        (shape,), message, transaction = change.shapes, change.message, change.transaction
        if not isinstance(message, Insert):
            raise AssertionError("a change that nobody made")
        plan = plans.get(message.relation_id) or JsonPlan(shape.relation, shape.types, context)
        plans[message.relation_id] = plan
        event = plan.encode(
            message,
            xid=transaction.xid,
            commit_lsn=transaction.commit_lsn,
            commit_time=transaction.commit_time,
            ordinal=change.ordinal,
            lsn=change.lsn,
        )
        events.append((event.key, event.value))
    return events


def microseconds_a_row(
    work: Callable[[Frame], object], measured: Frame, rows: int, rounds: int = ROUNDS
) -> list[float]:
    """A round repeats small frames, so that no figure is a single reading of a clock."""
    repeats = max(1, SMALLEST_ROUND_ROWS // rows // (4 if QUICK else 1))
    work(measured)
    runs = []
    for _ in range(rounds):
        begun, wall = time.thread_time(), time.perf_counter()
        for _ in range(repeats):
            work(measured)
        spent = time.thread_time() - begun
        WALL_TO_CPU.append((time.perf_counter() - wall) / max(spent, 1e-9))
        runs.append(spent / repeats / rows * 1e6)
    return runs


def check(encoder: FrameEncoder, measured: Frame) -> None:
    (events,) = encoder.encode(measured).topics
    if list(events) != reference(measured):
        raise SystemExit("kernels and reference disagree: there is nothing to measure")


def load_seconds() -> list[float]:
    """The first run fills the folder of byte code, which an image has from its build, and is not counted."""
    with tempfile.TemporaryDirectory() as byte_code:
        environment = os.environ | {"PYTHONPYCACHEPREFIX": byte_code}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [sys.executable, "-c", LOAD]
        runs = [
            subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
            for _ in range(4 if QUICK else 8)
        ]
    return [float(run.stdout) for run in runs[1:]]


def main() -> None:
    keep_freed_memory(ALL_MEMORY)
    warm()
    encoder = FrameEncoder(SOURCE, route)
    usual = frame(FRAME_ROWS)
    check(encoder, usual)
    events = microseconds_a_row(encoder.encode, usual, FRAME_ROWS)
    plain = microseconds_a_row(reference, usual, FRAME_ROWS, rounds=3 if QUICK else 5)
    messages = microseconds_a_row(_decoded, usual, FRAME_ROWS, rounds=3 if QUICK else 5)
    columns = microseconds_a_row(_read, usual, FRAME_ROWS)
    typed = microseconds_a_row(_typed, usual, FRAME_ROWS)
    one = frame(1)
    figures = [
        Figure("frame to JSON events with id, key and envelope", "µs/row", events, 0.6),
        Figure("frame to messages by the reference", "µs/row", messages, 8.0),
        Figure("frame to JSON events by the reference", "µs/row", plain),
        Figure("reference / kernels", "times", [slow / fast for slow, fast in zip(plain, events, strict=False)]),
        Figure("frame to JSON events, a transaction a row", "µs/row", _short_transactions(encoder)),
        Figure("frame to text columns in Arrow", "µs/row", columns),
        Figure("frame to typed columns in Arrow", "µs/row", typed, 1.0),
        Figure("a frame of one row to its event", "µs", microseconds_a_row(encoder.encode, one, 1), 40.0),
        Figure("a frame of one row to text columns", "µs", microseconds_a_row(_read, one, 1), 40.0),
        Figure("a frame of one row to typed columns", "µs", microseconds_a_row(_typed, one, 1), 40.0),
        *_flatness(encoder),
        Figure("kernels loaded from the cache and warm", "s", load_seconds(), 1.5),
        Figure("wall time / CPU time of all rounds", "times", WALL_TO_CPU),
    ]
    report("codec", figures, ("numba", "numpy", "pyarrow"), {"row_bytes": str(len(usual.body) // FRAME_ROWS)})


def _short_transactions(encoder: FrameEncoder) -> list[float]:
    return microseconds_a_row(encoder.encode, frame(FRAME_ROWS, rows_per_transaction=1), FRAME_ROWS)


def _decoded(measured: Frame) -> object:
    return [decode_message(raw) for _, raw in body_messages(measured)]


_ENCODER, _DECODER, _CASTER = FrameEncoder(SOURCE, route), FrameDecoder(SOURCE), Caster()
LARGEST_EVENT = 10**6


def _read(measured: Frame) -> object:
    return [batch.rows for batch in _DECODER.decode(measured)]


def _typed(measured: Frame) -> object:
    return [_CASTER.cast(batch).rows for batch in _DECODER.decode(measured)]


def _flatness(encoder: FrameEncoder) -> Sequence[Figure]:
    """A frame costs something whatever is in it, and so does a batch of columns: small ones are judged by what each
    further row adds, many tables beside one table with as many rows in each frame, and in each batch."""
    sizes = _in_turn(encoder.encode, {f"frame of {rows:,} rows to events": (frame(rows), rows) for rows in SIZES})
    rounds = list(zip(*(size.runs for size in sizes), strict=True))
    whole = [max(costs) / min(costs) for costs in rounds]
    added = [max(more) / min(more) for more in map(_added, rounds)]
    figures = [
        *sizes,
        Figure("dearest / cheapest row, by size of the frame", "times", whole),
        Figure("the same, of what a further row adds", "times", added, FLAT),
    ]
    rows = ROWS_A_TABLE * TABLES
    many, one, few = (frame(rows, tables=TABLES), rows), (frame(rows), rows), (frame(ROWS_A_TABLE), ROWS_A_TABLE)
    for to, work, (beside, number) in (("events", encoder.encode, one), ("typed", _typed, few)):
        name, other = f"frame of {rows:,} rows of {TABLES:,} tables to {to}", f"beside it: {number:,} rows of one table"
        pair = _in_turn(work, {name: many, f"{other} to {to}": (beside, number)})
        ratios = [dear / cheap for dear, cheap in zip(pair[0].runs, pair[1].runs, strict=True)]
        figures += [*pair, Figure(f"a row of many tables / of one, to {to}", "times", ratios, FLAT)]
    topics = frame(TABLES, tables=TABLES), TABLES
    return [*figures, *_in_turn(_delivered, {f"a row for each of {TABLES:,} topics, as produced": topics})]


def _added(costs: Sequence[float]) -> list[float]:
    """What a row costs that makes a frame of one size one of the next."""
    spent = zip(SIZES, costs, strict=True)
    return [(more * dear - rows * cheap) / (more - rows) for (rows, cheap), (more, dear) in pairwise(spent)]


def _delivered(measured: Frame) -> object:
    """What a producer is given: keys and values of each topic, once its terms are looked at."""
    return [
        list(run)
        for events in _ENCODER.encode(measured).topics
        if not events.keyless_events and events.largest_bytes < LARGEST_EVENT
        for _, run in events.runs()
    ]


def _in_turn(work: Callable[[Frame], object], measured: dict[str, tuple[Frame, int]]) -> list[Figure]:
    """Round by round, so that what else the machine does meets all of them."""
    runs: dict[str, list[float]] = {name: [] for name in measured}
    for _ in range(min(ROUNDS, 7)):
        for name, (each, rows) in measured.items():
            runs[name] += microseconds_a_row(work, each, rows, rounds=1)
    return [Figure(name, "µs/row", runs[name]) for name in measured]


if __name__ == "__main__":
    main()
