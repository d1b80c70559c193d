"""Where rows join the stream: framed whole, bounded, and behind it when it flows."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.contracts.frame import FrameKind, decode_frame
from tidegate.contracts.generation import Generation
from tidegate.contracts.snapshot import SnapshotHead, decode_snapshot
from tidegate.errors import TransientError
from tidegate.lsn import Lsn
from tidegate.pgoutput.encode import encode_message
from tidegate.pgoutput.messages import Begin, Commit, LogicalMessage
from tidegate.pgoutput.wire import XLogData, encode_envelope
from tidegate.position import BEGINNING
from tidegate_reader.framer import Framer
from tidegate_reader.frames import EpochStamp, SealedFrame
from tidegate_reader.snapshot.outlet import Insert, Outlet
from tidegate_reader.snapshot.reading import put_rows
from tidegate_reader.snapshot.throttle import Throttle

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


def make_framer(linger_seconds: int = 0, max_frame_bytes: int = 5000) -> Framer:
    stamp = EpochStamp(Generation(7, 1, "shop", "slot", b"n" * 16), 1, b"e" * 16, 0)
    return Framer(
        stamp, max_frame_bytes=max_frame_bytes, linger_seconds=linger_seconds, position=BEGINNING, safe_lsn=Lsn(0),
        skip_to=BEGINNING, next_seq=1, wall_clock=lambda: 0,
    )  # fmt: skip


async def _framed(lines: list[bytes], batch: int) -> list:  # type: ignore[type-arg]
    framer = make_framer()
    outlet = Outlet(0, in_flight=lambda: 0, most_in_flight=1, wake=lambda: None)

    async def rows():  # type: ignore[no-untyped-def]
        for start in range(0, len(lines), batch):
            yield lines[start : start + batch]

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


def test_rows_in_flight_are_bounded_before_the_stream_too() -> None:
    """A broker that is slow let the reader grow by all that may be in flight."""

    async def scenario() -> None:
        framer = make_framer()
        outlet = Outlet(0, in_flight=lambda: 0, most_in_flight=1, wake=lambda: None)
        durable = outlet.before(lambda _frame, _offset: None)
        flying: list[SealedFrame] = []
        while True:
            await outlet.put(Insert(FrameKind.SNAPSHOT, (), [b"x" * 4000], 1))
            if not (taken := outlet.take(framer, 0.0, is_alone=True)):
                break
            flying += taken
        assert 2**19 < sum(frame.size for frame in flying) <= 2**20 + 2**16
        never = asyncio.create_task(asyncio.Event().wait())
        waiting = asyncio.create_task(outlet.until_something_may_go_or(never, 60))
        await asyncio.sleep(0)
        assert not waiting.done()
        durable(flying[0], 1)
        await asyncio.wait_for(waiting, 5)

    asyncio.run(scenario())


def rests_after(size: int) -> float:
    """Seconds between the ack of a frame of so many bytes, which took ten milliseconds, and the next one, while the
    stream brings a change every millisecond."""

    async def scenario() -> float:
        now = 100.0
        framer = make_framer(max_frame_bytes=2**19)
        outlet = Outlet(0, in_flight=lambda: 0, most_in_flight=1, wake=lambda: None, clock=lambda: now)
        durable = outlet.before(lambda _frame, _offset: None)
        await outlet.put(Insert(FrameKind.SNAPSHOT, (), [b"x" * size], 1))
        [rows] = outlet.take(framer, now)
        await outlet.put(Insert(FrameKind.SNAPSHOT, (), [b"x" * size], 1))
        now += 0.01
        durable(rows, 1)
        begun = now
        while True:
            durable(replace(rows, seq=99, changes=1), 2)  # the stream's own
            if outlet.take(framer, now):
                return now - begun
            now += 0.001

    return asyncio.run(scenario())


def test_rows_rest_while_the_stream_flows() -> None:
    """Three times as long as a full frame of them took, and as much less after a smaller one: with the same rest after
    each, pieces of a few rows took minutes."""
    assert rests_after(2**18) == pytest.approx(0.03, abs=0.002)
    assert rests_after(2**14) == pytest.approx(0.002, abs=0.0011)


def test_rows_do_not_rest_when_the_stream_is_still() -> None:
    async def scenario() -> None:
        framer = make_framer(max_frame_bytes=2**19)
        outlet = Outlet(0, in_flight=lambda: 0, most_in_flight=1, wake=lambda: None, clock=lambda: 100.0)
        durable = outlet.before(lambda _frame, _offset: None)
        await outlet.put(Insert(FrameKind.SNAPSHOT, (), [b"x" * 2**18], 1))
        [rows] = outlet.take(framer, 99.0)
        await outlet.put(Insert(FrameKind.SNAPSHOT, (), [b"x" * 2**18], 1))
        assert outlet.take(framer, 99.5) == []  # it is still in flight
        durable(rows, 1)
        assert len(outlet.take(framer, 100.0)) == 1

    asyncio.run(scenario())


def test_the_stream_is_counted_without_rows_and_a_window_that_it_fills_is_given_up() -> None:
    async def scenario() -> None:
        framer = make_framer()
        outlet = Outlet(0, in_flight=lambda: 0, most_in_flight=1, wake=lambda: None)
        durable = outlet.before(lambda _frame, _offset: None)
        head = SnapshotHead(bytes(16), 1, 1, 0, 0, 0)

        async def rows():  # type: ignore[no-untyped-def]
            yield [b"1\n"]

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
