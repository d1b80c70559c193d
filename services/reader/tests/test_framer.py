"""Whatever transactions, cuts and restarts: the valid frames together are the stream, exactly once and in order."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.contracts.frame import Frame, FrameKind, SchemaRole, body_messages, decode_frame
from tidegate.contracts.generation import Generation
from tidegate.contracts.mark import decode_mark
from tidegate.errors import StreamError
from tidegate.lsn import Lsn
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.encode import encode_message
from tidegate.pgoutput.messages import (
    Begin,
    Column,
    Commit,
    Insert,
    LogicalMessage,
    Message,
    Origin,
    Relation,
    ReplicaIdentity,
    Truncate,
    Type,
)
from tidegate.pgoutput.wire import Keepalive, XLogData, encode_envelope
from tidegate.position import BEGINNING, Position
from tidegate_reader.framer import Framer
from tidegate_reader.frames import TICK_BYTES, EpochStamp, SealedFrame

GENERATION = Generation(7, 1, "shop", "slot", b"n" * 16)
LIMIT = 5000
LINGER = 0.003


def relation(relation_id: int, columns: int = 1) -> Relation:
    described = tuple(Column(1, f"c{number}", 20_000, -1) for number in range(columns))
    return Relation(relation_id, "public", f"t{relation_id}", ReplicaIdentity.DEFAULT, described)


TYPE = Type(20_000, "public", "mood")


@dataclass(frozen=True)
class Transaction:
    number: int
    changes: tuple[Message, ...]
    origin: bool = False

    @property
    def commit_lsn(self) -> Lsn:
        return Lsn(self.number * 1000)

    @property
    def end_lsn(self) -> Lsn:
        return Lsn(self.number * 1000 + 40)

    def delivered(self) -> list[Message]:
        """What the raw topic must hold of it."""
        begin = Begin(self.commit_lsn, 5, self.number)
        commit = Commit(self.commit_lsn, self.end_lsn, 5)
        origin = [Origin(self.commit_lsn, "o")] if self.origin else []
        return [begin, *origin, *self.changes, commit]

    def sent(self, known: dict[int, Relation]) -> list[Message]:
        """As a new session would send it: types and relations before their first change."""
        sent: list[Message] = []
        for message in self.delivered():
            for relation_id in relations_of(message):
                if relation_id not in known:
                    known[relation_id] = relation(relation_id)
                    sent += [TYPE, known[relation_id]]
            sent.append(message)
        return sent


def relations_of(message: Message) -> tuple[int, ...]:
    if isinstance(message, Insert):
        return (message.relation_id,)
    return message.relation_ids if isinstance(message, Truncate) else ()


def envelope(message: Message, lsn: int = 9) -> bytes:
    return encode_envelope(XLogData(Lsn(lsn), Lsn(lsn), 0, encode_message(message)))


def framer(*, skip_to: Position = BEGINNING, safe_lsn: int = 0, epoch: int = 1, limit: int = LIMIT) -> Framer:
    return Framer(
        EpochStamp(GENERATION, epoch, b"e" * 16, 0),
        max_frame_bytes=limit,
        linger_seconds=LINGER,
        position=skip_to,
        safe_lsn=Lsn(safe_lsn),
        skip_to=skip_to,
        next_seq=1,
        wall_clock=lambda: 0,
    )


def frames_of(sealed: list[SealedFrame]) -> list[Frame]:
    return [decode_frame(each.data) for each in sealed]


def whole_frames(frames: list[Frame]) -> list[Frame]:
    """Parts re-joined; a group whose end is missing was never said."""
    whole: list[Frame] = []
    group: list[bytes] = []
    for frame in frames:
        if frame.header.parts == 0:
            group = []
            whole.append(frame)
            continue
        group = [frame.body] if frame.header.part == 1 else [*group, frame.body]
        if frame.header.part == frame.header.parts:
            whole.append(replace(frame, body=b"".join(group)))
    return whole


def messages_of(frames: list[Frame]) -> list[Message]:
    whole = [each for each in whole_frames(frames) if each.header.kind is FrameKind.WAL]
    return [decode_message(message) for frame in whole for _, message in body_messages(frame)]


def feed_all(subject: Framer, data: list[bytes], pause_every: int) -> list[SealedFrame]:
    """The link runs empty now and then, sometimes for longer than the linger."""
    sealed, now = [], 0.0
    for at in range(0, len(data), pause_every):
        sealed += subject.feed([memoryview(each) for each in data[at : at + pause_every]], now)
        now += LINGER * (at % 3)
        sealed += subject.empty_link(now)
    return sealed + subject.finish(now)


rows = st.builds(
    Insert, relation_id=st.integers(1, 3), new=st.tuples(st.sampled_from([b"x", b"y" * 900, b"z" * (LIMIT * 2)]))
)
truncates = st.builds(
    Truncate,
    relation_ids=st.lists(st.integers(1, 3), min_size=1, max_size=3, unique=True).map(tuple),
    options=st.just(0),
)
notes = st.just(LogicalMessage(1, Lsn(3), "tidegate", b"beat"))
histories = st.lists(
    st.tuples(st.lists(st.one_of(rows, rows, truncates, notes), max_size=6).map(tuple), st.booleans()), max_size=8
).map(lambda each: [Transaction(number, changes, origin) for number, (changes, origin) in enumerate(each, 1)])


@settings(max_examples=300, deadline=None)
@given(histories, st.data())
def test_valid_frames_are_the_stream_exactly_once(history: list[Transaction], data: st.DataObject) -> None:
    log: list[Frame] = []
    tail, safe = BEGINNING, 0
    for epoch in range(1, data.draw(st.integers(1, 4), label="epochs") + 1):
        subject = framer(skip_to=tail, safe_lsn=safe, epoch=epoch)
        # The server sends again from anywhere that was confirmed: never above what the raw topic proves.
        start = data.draw(st.integers(0, safe), label="confirmed")
        known: dict[int, Relation] = {}
        sent = [message for each in history if each.commit_lsn >= start for message in each.sent(known)]
        sealed = feed_all(subject, [envelope(each) for each in sent], data.draw(st.integers(1, 9), label="pause"))
        assert [each.seq for each in sealed] == list(range(1, len(sealed) + 1))
        kept = frames_of(sealed[: data.draw(st.integers(0, len(sealed)), label="arrived")])
        log += kept
        for frame in kept:
            assert frame.header.last >= tail
            assert frame.header.safe_lsn >= safe
            tail, safe = frame.header.last, frame.header.safe_lsn
    stream = [message for each in history for message in each.delivered()]
    assert messages_of(log) == stream[: len(messages_of(log))]
    done = framer(skip_to=tail, safe_lsn=safe, epoch=9)
    known = {}
    rest = feed_all(done, [envelope(each) for one in history for each in one.sent(known)], 4)
    assert messages_of(log + frames_of(rest)) == stream


@settings(max_examples=200, deadline=None)
@given(histories, st.integers(1, 9))
def test_every_frame_decodes_alone_and_counts_right(history: list[Transaction], pause: int) -> None:
    known: dict[int, Relation] = {}
    sealed = feed_all(framer(), [envelope(message) for each in history for message in each.sent(known)], pause)
    shapes = [sum(5 + len(entry.message) for entry in frame.schema) for frame in frames_of(sealed)]
    assert all(len(one.data) <= LIMIT + 12 * size for one, size in zip(sealed, shapes, strict=True))
    for frame in whole_frames(frames_of(sealed)):
        described = [decode_message(entry.message) for entry in frame.schema]
        messages = [decode_message(message) for _, message in body_messages(frame)]
        known_ids = {each.relation_id for each in described if isinstance(each, Relation)}
        assert known_ids == {each for message in messages for each in relations_of(message)}
        assert not known_ids or TYPE in described
        assert frame.header.messages == len(messages)
        assert frame.header.changes == sum(isinstance(each, Insert | Truncate | LogicalMessage) for each in messages)
        assert walk(frame, messages) == (frame.header.first, frame.header.last)


def walk(frame: Frame, messages: list[Message]) -> tuple[Position, Position]:
    """First and last position, found the way a decoder that sees only this frame would."""
    opened = frame.header.open_transaction
    commit_lsn, ordinal = (opened.commit_lsn, opened.next_ordinal) if opened else (Lsn(0), 0)
    positions = []
    for message in messages:
        if isinstance(message, Begin):
            commit_lsn, ordinal = message.commit_lsn, 0
        elif not isinstance(message, Origin):
            positions.append(Position(commit_lsn, ordinal))
            ordinal += 1
    return (positions[0], positions[-1]) if positions else (frame.header.first, frame.header.first)


def test_a_changed_relation_closes_the_frame_and_is_announced() -> None:
    subject = framer()
    first = [Begin(Lsn(1000), 5, 1), TYPE, relation(1), Insert(1, (b"a",))]
    second = [relation(1, columns=2), Insert(1, (b"a", b"b")), Commit(Lsn(1000), Lsn(1040), 5)]
    sealed = subject.feed([envelope(each) for each in first + second], 0.0) + subject.finish(0.0)
    old, mark, new, tick = frames_of(sealed)
    assert decode_mark(mark.body).details == {"schema": "public", "table": "t1", "relation_id": 1}
    assert (mark.header.first, mark.header.last) == (Position(Lsn(1000), 1), Position(Lsn(1000), 0))
    previous = [decode_message(each.message) for each in mark.schema if each.role is SchemaRole.PREVIOUS]
    assert previous == [TYPE, relation(1)]
    assert [decode_message(each.message) for each in old.schema] == [TYPE, relation(1)]
    assert [decode_message(each.message) for each in new.schema] == [TYPE, relation(1, columns=2)]
    assert new.header.open_transaction is not None
    assert tick.body == b""


def test_frames_of_many_tables_are_larger_but_never_more_than_twice() -> None:
    rows = tuple(Insert(at % 60 + 1, (b"a",)) for at in range(300))
    sealed = feed_all(framer(), [envelope(each) for each in Transaction(1, rows).sent({})], 10_000)
    assert LIMIT < max(len(each.data) for each in sealed) <= 2 * LIMIT


def test_a_flush_with_nothing_behind_it_ends_in_one_padded_tick() -> None:
    subject = framer()
    transaction = Transaction(1, (Insert(1, (b"a",)),))
    assert subject.feed([envelope(each) for each in transaction.sent({})], 1.0) == []
    frame, tick = subject.empty_link(1.0)
    assert (tick.seq, len(tick.data), tick.safe_lsn) == (frame.seq + 1, TICK_BYTES, transaction.end_lsn)
    assert (subject.empty_link(2.0), subject.deadline()) == ([], None)


def test_a_busy_link_waits_for_the_linger() -> None:
    subject = framer()
    subject.feed([envelope(each) for each in Transaction(1, (Insert(1, (b"a",)),)).sent({})], 1.0)
    subject.empty_link(1.0)
    subject.feed([envelope(each) for each in Transaction(2, ()).sent({})], 1.001)
    assert (subject.empty_link(1.001), subject.deadline()) == ([], 1.0 + LINGER)
    assert len(subject.empty_link(1.0 + LINGER)) == 2


def test_a_keepalive_inside_a_transaction_moves_nothing() -> None:
    subject = framer()
    keepalive = encode_envelope(Keepalive(Lsn(990_000), 0, reply_requested=True))
    subject.feed([envelope(Begin(Lsn(1000), 5, 1)), keepalive], 0.0)
    assert ([each.safe_lsn for each in subject.empty_link(9.0)], subject.empty_link(99.0)) == ([0], [])
    assert (subject.keepalives.reply_requests, subject.received_lsn) == (1, 990_000)


def test_an_idle_link_catches_up_by_keepalives_once_a_second() -> None:
    subject = framer()
    subject.empty_link(0.0)
    for number in range(1, 4):
        subject.feed([encode_envelope(Keepalive(Lsn(number), 0, reply_requested=False))], 10.0 + number / 10)
        subject.empty_link(10.0 + number / 10)
    assert subject.deadline() == pytest.approx(11.1)
    assert {each.safe_lsn for each in subject.empty_link(11.2)} == {3}
    subject.feed([encode_envelope(Keepalive(Lsn(2), 0, reply_requested=False))], 13.0)
    assert subject.empty_link(13.0) == []


def test_a_message_without_a_transaction_is_dropped_and_counted() -> None:
    subject = framer()
    subject.empty_link(0.0)
    subject.feed([envelope(LogicalMessage(0, Lsn(3), "p", b""))], 1.0)
    assert (subject.dropped_messages, subject.empty_link(2.0)) == (1, [])


@pytest.mark.parametrize(
    "wrong",
    [
        [Commit(Lsn(1), Lsn(2), 0)],
        [Insert(1, (b"a",))],
        [Begin(Lsn(5), 0, 1), Begin(Lsn(6), 0, 2)],
        [Begin(Lsn(5), 0, 1), Commit(Lsn(6), Lsn(7), 0)],
        [Begin(Lsn(5), 0, 1), Insert(1, (b"a",))],
        [Begin(Lsn(5), 0, 1), Commit(Lsn(5), Lsn(7), 0), Begin(Lsn(5), 0, 1)],
    ],
)
def test_a_broken_protocol_stops_the_stream(wrong: list[Message]) -> None:
    with pytest.raises(StreamError):
        framer().feed([envelope(each) for each in wrong], 0.0)


@given(st.binary(max_size=60))
def test_any_bytes_give_a_stream_error_or_nothing(data: bytes) -> None:
    subject = framer()
    try:
        subject.feed([data], 0.0)
    except StreamError:
        return
    assert frames_of(subject.finish(0.0))
