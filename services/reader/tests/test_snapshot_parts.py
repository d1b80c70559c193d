"""The parts of snapshots that hold no socket: pages, records, pace, SQL, and what a transaction contains."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.contracts.ack import Ack
from tidegate.contracts.frame import FrameKind, decode_frame
from tidegate.contracts.generation import Generation
from tidegate.contracts.snapshot import SnapshotHead, decode_snapshot
from tidegate.contracts.snapshot_request import Comparison, RowFilter
from tidegate.contracts.snapshot_status import SnapshotKind, SnapshotState
from tidegate.errors import DecodeError, TransientError
from tidegate.lsn import Lsn
from tidegate.pgoutput.encode import encode_message
from tidegate.pgoutput.messages import Begin, Commit, LogicalMessage
from tidegate.pgoutput.wire import XLogData, encode_envelope
from tidegate.position import BEGINNING
from tidegate_reader.framer import Framer
from tidegate_reader.frames import EpochStamp
from tidegate_reader.snapshot.delivery import is_delivered, is_lost
from tidegate_reader.snapshot.outlet import Insert, Outlet
from tidegate_reader.snapshot.pages import Heap
from tidegate_reader.snapshot.queries import condition_of, rows_of
from tidegate_reader.snapshot.reading import Seen, put_rows
from tidegate_reader.snapshot.records import (
    SnapshotRecord,
    TableRecord,
    decode_snapshot_record,
    decode_table_record,
)
from tidegate_reader.snapshot.throttle import Throttle


def heap(pages: int) -> Heap:
    return Heap(1, "public", "orders", 7, pages)


@given(st.integers(0, 200), st.lists(st.tuples(st.integers(1, 50), st.sampled_from(["done", "back", "crash"]))))
def test_every_page_is_read_and_none_is_done_that_was_not(pages: int, steps: list[tuple[int, str]]) -> None:
    """However pieces are finished, given back or forgotten by a crash: what is left is what was not finished."""
    subject, finished = heap(pages), set[int]()
    for size, what in steps:
        taken = subject.take(size)
        if taken is None:
            break
        if what == "done":
            subject.finish(taken)
            finished |= set(range(*taken))
        elif what == "back":
            subject.put_back(taken)
        else:
            subject.give_back()
        assert subject.done_pages == len(finished)
    subject.give_back()
    left = set[int]()
    while (taken := subject.take(30)) is not None:
        assert not left & set(range(*taken))
        left |= set(range(*taken))
    assert left | finished == set(range(pages))
    assert not left & finished


def test_a_record_comes_back_without_what_was_under_way() -> None:
    first = heap(100)
    first.finish((0, 10))
    first.take(20)
    table = TableRecord(
        snapshot="ab", relation_id=5, schema="public", table="orders", state=SnapshotState.RUNNING, heaps=[first],
        has_key=True, horizon="731", rows=9, size=80, is_one_reading=False, moved=[4],
    )  # fmt: skip
    found = decode_table_record(table.encode())
    assert found.heaps[0].taken == [(0, 10)]
    first.give_back()
    assert found == table
    snapshot = SnapshotRecord(
        id="ab", kind=SnapshotKind.REQUESTED, state=SnapshotState.PAUSED, by="somebody", requested=3,
        tables=("public.orders",), filters=(RowFilter("public.orders", "id", Comparison.EQUAL, "1"),),
    )  # fmt: skip
    assert decode_snapshot_record(snapshot.encode()) == snapshot


@pytest.mark.parametrize("value", [b"", b"{}", b"[]", b'{"version":2}', b'{"version":1,"heaps":3}'])
def test_what_is_no_record_is_refused(value: bytes) -> None:
    for decode in (decode_snapshot_record, decode_table_record):
        with pytest.raises(DecodeError, match="snapshots topic"):
            decode(value)


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(1, 3000)), max_size=30))
def test_a_pace_is_kept_over_any_stretch(steps: list[tuple[float, int]]) -> None:
    now = 0.0
    throttle = Throttle(1000, None, clock=lambda: now)
    passed = 0
    for idle, rows in steps:
        now += idle
        now += throttle.owed(rows, 0)
        passed += rows
        assert passed <= 1000 * (now + 1.0) + 1e-6


def test_what_a_person_or_a_name_says_stays_a_value() -> None:
    odd = Heap(1, 'Odd"Schema', "a'b", 1, 1)
    filters = [
        RowFilter("x.y", 'c"d', Comparison.NOT_EQUAL, "'; DROP TABLE x --"),
        RowFilter("x.y", "e", Comparison.IS_NULL),
    ]
    query = rows_of(odd, ['c"d'], (4, 8), ["kind = 1", condition_of(filters)])
    assert query == (
        'SELECT "c""d" FROM ONLY "Odd""Schema"."a\'b" WHERE (kind = 1)'
        ' AND ("c""d" <> \'\'\'; DROP TABLE x --\' AND "e" IS NULL)'
        " AND ctid >= '(4,0)'::tid AND ctid < '(8,0)'::tid"
    )
    assert rows_of(heap(9), ["a"], (0, 9), [None], is_last=True) == 'SELECT "a" FROM ONLY "public"."orders"'


def test_what_a_transaction_contains() -> None:
    """Its own end may lie beyond the turn of the transaction numbers."""
    seen = Seen(2**32 - 5, 3, frozenset({2**32 - 2}), 0)
    assert seen.contains(2**32 - 6)
    assert seen.contains(2)
    assert not seen.contains(2**32 - 2)
    assert not seen.contains(3)
    assert not seen.contains(500)


LINES = st.lists(st.binary(min_size=0, max_size=900).map(lambda row: row.replace(b"\n", b"") + b"\n"), max_size=60)


@given(LINES, st.integers(1, 10))
def test_rows_arrive_whole_once_and_numbered(lines: list[bytes], batch: int) -> None:
    frames = asyncio.run(_framed(lines, batch))
    bodies, waiting = [], b""
    for frame in frames:
        if frame.header.kind is not FrameKind.SNAPSHOT:
            continue
        waiting = waiting + frame.body if frame.header.part > 1 else frame.body
        if frame.header.part == frame.header.parts:
            bodies.append(decode_snapshot(waiting))
    assert b"".join(body.text for body in bodies) == b"".join(lines)
    assert [body.head.first_row for body in bodies] == [
        sum(each.head.rows for each in bodies[:place]) for place in range(len(bodies))
    ]
    assert [body.head.is_last for body in bodies] == [False] * (len(bodies) - 1) + [True] * bool(bodies)
    assert [frame.header.seq for frame in frames] == list(range(1, len(frames) + 1))
    assert {frame.header.last for frame in frames} <= {BEGINNING}


def make_framer(linger_seconds: int = 0) -> Framer:
    stamp = EpochStamp(Generation(7, 1, "shop", "slot", b"n" * 16), 1, b"e" * 16, 0)
    return Framer(
        stamp, max_frame_bytes=5000, linger_seconds=linger_seconds, position=BEGINNING, safe_lsn=Lsn(0),
        skip_to=BEGINNING, next_seq=1, wall_clock=lambda: 0,
    )  # fmt: skip


async def _framed(lines: list[bytes], batch: int) -> list:  # type: ignore[type-arg]
    framer = make_framer()
    outlet = Outlet(0, in_flight=lambda: 0, most_in_flight=1, wake=lambda: None)

    async def rows():  # type: ignore[no-untyped-def]
        for start in range(0, len(lines), batch):
            yield [memoryview(line) for line in lines[start : start + batch]]

    head = SnapshotHead(bytes(16), 1, 1, 0, 0, 0)
    counted = await put_rows(rows(), outlet, head, (), 800, Throttle(None, None))
    assert (counted.rows, counted.bytes) == (len(lines), sum(map(len, lines)))
    sealed = []
    while frames := outlet.take(framer, 0.0, is_alone=True):
        sealed += frames
    if counted.last is not None:
        assert await counted.last.placed == sealed[-1].seq
    return [decode_frame(each.data) for each in sealed]


def test_rows_wait_while_the_stream_fills_what_may_be_in_flight() -> None:
    async def scenario() -> None:
        framer = make_framer()
        flying = 100
        outlet = Outlet(0, in_flight=lambda: flying, most_in_flight=50, wake=lambda: None)
        await outlet.put(Insert(FrameKind.SNAPSHOT, (), [b"x"], 1))
        assert outlet.take(framer, 0.0) == []
        flying = 50
        assert len(outlet.take(framer, 0.0)) == 1

    asyncio.run(scenario())


def test_the_stream_is_counted_without_rows_and_a_window_that_it_fills_is_given_up() -> None:
    async def scenario() -> None:
        framer = make_framer()
        outlet = Outlet(0, in_flight=lambda: 0, most_in_flight=1, wake=lambda: None)
        durable = outlet.before(lambda _frame, _offset: None)
        head = SnapshotHead(bytes(16), 1, 1, 0, 0, 0)

        async def rows():  # type: ignore[no-untyped-def]
            yield [memoryview(b"1\n")]

        await put_rows(rows(), outlet, head, (), 800, Throttle(None, None))
        [own] = outlet.take(framer, 0.0)
        stream = replace(own, seq=own.seq + 1)
        durable(own, 1)
        assert outlet.stream_bytes == 0
        durable(stream, 2)
        assert outlet.stream_bytes == len(stream.data)
        with pytest.raises(TransientError) as given_up:
            await put_rows(rows(), outlet, head, (), 800, Throttle(None, None), lambda: outlet.stream_bytes > 0)
        assert given_up.value.code == "SNAPSHOT_WINDOW_LONG"
        assert outlet.take(framer, 0.0) == []

    asyncio.run(scenario())


def test_a_frame_of_the_stream_that_rows_push_out_counts_as_the_streams() -> None:
    """All of it passed for rows as soon as some waited, and no window was ever given up."""

    async def scenario() -> None:
        framer = make_framer(linger_seconds=9)
        outlet = Outlet(0, in_flight=lambda: 0, most_in_flight=1, wake=lambda: None)
        durable = outlet.before(lambda _frame, _offset: None)
        messages = (
            Begin(Lsn(100), 0, 1),
            LogicalMessage(True, Lsn(100), "x", b"y" * 1000),
            Commit(Lsn(100), Lsn(140), 0),
        )
        await outlet.put(Insert(FrameKind.SNAPSHOT, (), [b"1\n"], 1))
        fed = framer.feed([encode_envelope(XLogData(Lsn(100), Lsn(140), 0, encode_message(m))) for m in messages], 0.0)
        frames = fed + outlet.take(framer, 0.0)
        for frame in frames:
            durable(frame, frame.seq)
        stream = [frame for frame in frames if decode_frame(frame.data).header.kind is FrameKind.WAL]
        assert len(stream) == 1
        assert outlet.stream_bytes == len(stream[0].data)

    asyncio.run(scenario())


def test_rows_that_no_sink_can_find_any_more_are_read_again() -> None:
    done = SnapshotRecord(
        id="ab", kind=SnapshotKind.INITIAL, state=SnapshotState.DONE, by="configuration", requested=0,
        topic_id="one", first_offset=10, end_offset=50,
    )  # fmt: skip
    required = ("orders",)

    def ack(offset: int, topic: str = "one") -> dict[str, Ack]:
        return {"orders": Ack("orders", "g", 1, topic, offset, BEGINNING, Lsn(0), 0)}

    assert not is_lost(done, {}, required, "one", 10), "all of it is still there"
    assert is_lost(done, {}, required, "one", 20), "a sink without an ack needs it from its first row on"
    assert is_lost(done, ack(15), required, "one", 20)
    assert not is_lost(done, ack(19), required, "one", 20), "it reads on where the topic begins"
    assert not is_lost(done, ack(50), required, "one", 90)
    assert is_lost(done, ack(49), required, "two", 0), "the topic was made anew"
    assert not is_lost(done, ack(50), required, "two", 0)
    assert is_lost(done, ack(500, "two"), required, "two", 0)
    assert not is_lost(replace(done, is_delivered=True), ack(500, "two"), required, "two", 0)
    assert is_delivered(done, ack(50), required)
    assert not is_delivered(done, ack(49), required)
    assert not is_delivered(done, ack(500, "two"), required)
