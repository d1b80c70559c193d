"""The targets: each takes bytes, and raises AssertionError where a promise is broken.

Invariant: a target raises nothing else, whatever the bytes; what it compares with is the readable reference.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from kit import reference
from kit.captures import FOLDER, Sent, captures, payloads, sent
from kit.made_frames import GENERATION, SYSTEM_ID, frame_of
from kit.plain_casts import BEYOND, plain_cast
from kit.typed_values import plain, same

from tidegate.columns.batches import FrameDecoder
from tidegate.columns.cast_nested import cast_text
from tidegate.columns.casts import EXTENSIONS, Arrays, Cast, cast_of
from tidegate.columns.envelopes import EventSource
from tidegate.columns.json_encode import FrameEncoder
from tidegate.columns.typed import Caster
from tidegate.contracts.frame import BODY_ENTRY, Frame, decode_frame, encode_frame
from tidegate.errors import DecodeError, StreamError
from tidegate.lsn import Lsn
from tidegate.pgoutput import RelationMap, decode_envelope, decode_message, encode_message
from tidegate.pgoutput.messages import Begin, Column, Commit, Insert, Message, Relation, ReplicaIdentity, Type
from tidegate.pgoutput.transactions import Transactions
from tidegate.pgoutput.wire import encode_envelope
from tidegate.position import BEGINNING

Target = Callable[[bytes], None]


def envelope(data: bytes) -> None:
    try:
        decoded = decode_envelope(data)
    except DecodeError:
        return
    assert data == encode_envelope(decoded)


def message(data: bytes) -> None:
    """The first byte says where the message stands."""
    if data:
        in_stream, parallel = bool(data[0] & 1), bool(data[0] & 2)
        try:
            decoded = decode_message(data[1:], in_stream=in_stream, parallel=parallel)
        except DecodeError:
            return
        assert data[1:] == encode_message(decoded)


def stream(data: bytes) -> None:
    """Messages one behind the other, each behind its length: positions and relation maps of any order."""
    transactions, relations, streamed = Transactions(), RelationMap(), None
    try:
        for raw in _parts(data):
            decoded = decode_message(raw, in_stream=transactions.in_stream)
            transactions.place(decoded)
            if isinstance(decoded, Relation | Type):
                relations.learn(decoded, xid=streamed)
            elif isinstance(decoded, Insert):
                relations.relation(decoded.relation_id, xid=streamed)
    except StreamError:
        return


def _parts(data: bytes) -> Iterator[bytes]:
    at = 0
    while at + 2 <= len(data):
        (length,) = struct.unpack_from(">H", data, at)
        yield data[at + 2 : at + 2 + length]
        at += 2 + length


def frame(data: bytes) -> None:
    try:
        decoded = decode_frame(data)
    except DecodeError:
        return
    again = encode_frame(decoded.header, decoded.schema, [decoded.body], min_bytes=len(data))
    assert decoded == decode_frame(again)


_COLUMNS = (16, 17, 23, 701, 1700, 25, 1114, 1184, 1186, 3802, 1007, 1009, 3904, 600)
_RELATION: Final = Relation(
    5,
    "public",
    "t",
    ReplicaIdentity.DEFAULT,
    tuple(Column(int(at == 2), f"c{at}", oid, -1) for at, oid in enumerate(_COLUMNS)),
)
_NARROW: Final = Relation(6, "public", "n", ReplicaIdentity.FULL, (Column(1, "a", 25, -1),))
_FRAME: Final = frame_of([_RELATION, _NARROW], ())
_SOURCE: Final = EventSource("p", GENERATION.database, SYSTEM_ID)
_ENCODER: Final = FrameEncoder(_SOURCE, lambda *_: "topic")
_DECODER, _CASTER = FrameDecoder(_SOURCE), Caster()


def kernels(data: bytes) -> None:
    """A frame's body: the same events, refusals and verdict as the reference, and columns wherever there are events."""
    made = Frame(_FRAME.header, _FRAME.schema, data)
    assert _outcome(lambda: _reference(made)) == _outcome(lambda: _encoded(made))
    try:
        batches = _DECODER.decode(made)
    except DecodeError:
        return
    for batch in batches:
        batch.rows.validate(full=True)
        _CASTER.cast(batch).rows.validate(full=True)


def decode_by_kernels(data: bytes) -> None:
    """A frame's body to events and to typed columns, and nothing beside it."""
    made = Frame(_FRAME.header, _FRAME.schema, data)
    try:
        _ENCODER.encode(made)
        for batch in _DECODER.decode(made):
            _CASTER.cast(batch)
    except DecodeError:
        return


def _outcome(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except DecodeError as error:
        return error.code


def _reference(made: Frame) -> Any:
    found = reference.encode(made, lambda *_: "topic", "p", BEGINNING)
    return found.of_topic("topic"), sorted(each.raw for each in found.rejected)


def _encoded(made: Frame) -> Any:
    found = _ENCODER.encode(made)
    return [event for events in found.topics for event in events], sorted(each.raw for each in found.rejected)


_OIDS = (16, 17, 20, 21, 23, 25, 26, 700, 701, 1082, 1083, 1114, 1184, 1186, 2950, 600, 602, 604, 628, 718)
_NESTED = (1007, 1009, 1020, 1231, 3904, 3908, 4451, 3905, 1185)
_CASTS: Final[list[Cast]] = [
    *(cast_of(oid, -1, {}, arrays) for oid in _OIDS + _NESTED for arrays in Arrays),
    *(cast_of(1700, (precision << 16 | scale) + 4, {}) for precision, scale in ((9, 2), (38, 10), (76, 20))),
    *EXTENSIONS.values(),
]


def casts(data: bytes) -> None:
    """The first byte says which cast."""
    if data:
        cast, text = _CASTS[data[0] % len(_CASTS)], data[1:]
        typed = cast_text(pa.array([text], pa.large_binary()), cast)
        typed.values.validate(full=True)
        expected = plain_cast(text, cast)
        found = BEYOND if typed.beyond is not None and typed.beyond[0] else plain(typed.values)[0]
        assert expected is found is BEYOND or same(expected, found)


TARGETS: Final[Mapping[str, Target]] = {
    each.__name__: each for each in (envelope, message, stream, frame, kernels, casts)
}


def seeds(name: str) -> Iterator[bytes]:
    """Out of what real servers sent: one of each tag and length, and every text of every value."""
    for capture in captures():
        if name == "envelope":
            yield from list(payloads(capture.path))[:40]
        elif name == "stream":
            parts = [each.raw for each in sent(capture)[:200]]
            yield b"".join(struct.pack(">H", len(raw)) + raw for raw in parts if len(raw) < 2000)
        elif name in ("message", "kernels", "casts"):
            yield from _from_messages(name, _shapes(sent(capture)), 2 * capture.is_parallel)
    if name == "frame":
        yield from (path.read_bytes() for path in sorted((FOLDER.parent / "contracts").glob("*.bin")))


def _shapes(messages: tuple[Sent, ...]) -> Iterator[Sent]:
    seen = set()
    for each in messages:
        shape = (each.raw[:1], len(each.raw) if len(each.raw) < 400 else 400)
        if shape not in seen:
            seen.add(shape)
            yield each


def _from_messages(name: str, messages: Iterator[Sent], parallel: int) -> Iterator[bytes]:
    for at, each in enumerate(messages):
        if name == "message":
            yield bytes([each.in_stream | parallel]) + each.raw
        elif isinstance(each.message, Insert):
            texts = [value for value in each.message.new if isinstance(value, bytes) and len(value) < 200]
            if name == "casts":
                yield from (bytes([(at + place) % len(_CASTS)]) + text for place, text in enumerate(texts))
            else:
                yield _body([Insert(6, (text,)) for text in texts[:20]])


def _body(rows: list[Insert]) -> bytes:
    whole: list[Message] = [Begin(Lsn(9), 5, 7), *rows, Commit(Lsn(9), Lsn(9), 5)]
    return b"".join(BODY_ENTRY.pack(len(raw), 1) + raw for raw in map(encode_message, whole))
