"""For every message that can be made: encode, decode, same again. For any bytes: a message or one DecodeError."""

import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidegate.errors import DecodeError
from tidegate.lsn import Lsn
from tidegate.pgoutput import decode_envelope, decode_message, encode_message
from tidegate.pgoutput.messages import (
    UNCHANGED,
    Begin,
    BeginPrepare,
    Binary,
    Column,
    Commit,
    CommitPrepared,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    OldKind,
    Origin,
    Prepare,
    Relation,
    ReplicaIdentity,
    RollbackPrepared,
    StreamAbort,
    StreamCommit,
    StreamPrepare,
    StreamStart,
    Truncate,
    Type,
    Update,
)

u32 = st.integers(0, 2**32 - 1)
i32 = st.integers(-(2**31), 2**31 - 1)
lsns = st.integers(0, 2**64 - 1).map(Lsn)
times = st.integers(-(2**63), 2**63 - 1)
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
values = st.none() | st.just(UNCHANGED) | st.binary(max_size=30) | st.binary(max_size=30).map(Binary)
rows = st.lists(values, max_size=12).map(tuple)
columns = st.builds(Column, st.integers(0, 255), names, u32, i32)


def _changes(xids: st.SearchStrategy[int | None]) -> st.SearchStrategy[Message]:
    identities = st.sampled_from(ReplicaIdentity)
    return st.one_of(
        st.builds(Insert, u32, rows, xids),
        st.builds(Update, u32, st.none(), st.none(), rows, xids),
        st.builds(Update, u32, st.sampled_from(OldKind), rows, rows, xids),
        st.builds(Delete, u32, st.sampled_from(OldKind), rows, xids),
        st.builds(Truncate, st.lists(u32, max_size=5).map(tuple), st.integers(0, 3), xids),
        st.builds(LogicalMessage, st.integers(0, 1), lsns, names, st.binary(max_size=50), xids),
        st.builds(Relation, u32, names, names, identities, st.lists(columns, max_size=12).map(tuple), xids),
        st.builds(Type, u32, names, names, xids),
    )


controls = st.one_of(
    st.builds(Begin, lsns, times, u32),
    st.builds(Commit, lsns, lsns, times),
    st.builds(Origin, lsns, names),
    st.builds(StreamStart, u32, st.booleans()),
    st.builds(StreamCommit, u32, lsns, lsns, times),
    st.builds(StreamAbort, u32, u32),
    *(
        st.builds(kind, lsns, lsns, times, u32, names)
        for kind in (BeginPrepare, Prepare, CommitPrepared, StreamPrepare)
    ),
    st.builds(RollbackPrepared, lsns, lsns, times, times, u32, names),
)


@given(controls | _changes(st.none()))
def test_encoding_and_decoding_is_identity(message: Message) -> None:
    assert message == decode_message(encode_message(message))


@given(_changes(u32))
def test_inside_a_stream_too(message: Message) -> None:
    assert message == decode_message(encode_message(message), in_stream=True)


@given(st.builds(StreamAbort, u32, u32, lsns, times))
def test_an_abort_under_parallel_streaming_too(message: StreamAbort) -> None:
    assert message == decode_message(encode_message(message), parallel=True)


@given(controls | _changes(st.none()), st.data())
def test_a_message_cut_anywhere_is_refused(message: Message, data: st.DataObject) -> None:
    whole = encode_message(message)
    with pytest.raises(DecodeError):
        decode_message(whole[: data.draw(st.integers(0, len(whole) - 1))])


tagged = st.builds(
    lambda tag, rest: tag + rest, st.sampled_from([bytes([tag]) for tag in b"BCORYIUDTMSEcAbPKrp"]), st.binary()
)


@given(st.binary() | tagged, st.booleans(), st.booleans())
def test_any_bytes_give_a_message_or_a_decode_error(data: bytes, in_stream: bool, parallel: bool) -> None:
    """And the message is what those bytes say: encoded again, it is them."""
    try:
        message = decode_message(data, in_stream=in_stream, parallel=parallel)
    except DecodeError:
        return
    assert data == encode_message(message)


@given(controls | _changes(st.none()), st.data())
def test_one_byte_wrong_gives_a_message_or_a_decode_error(message: Message, data: st.DataObject) -> None:
    damaged = bytearray(encode_message(message))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        decoded = decode_message(bytes(damaged))
    except DecodeError:
        return
    assert bytes(damaged) == encode_message(decoded)


@given(st.binary() | st.builds(lambda tag, rest: tag + rest, st.sampled_from([b"w", b"k"]), st.binary(max_size=40)))
@example(b"")
def test_any_bytes_give_an_envelope_or_a_decode_error(data: bytes) -> None:
    try:
        envelope = decode_envelope(data)
    except DecodeError:
        return
    assert data[:1] == (b"k" if hasattr(envelope, "reply_requested") else b"w")


@settings(max_examples=20)
@given(
    st.sampled_from([b"I\0\0\0\1N\x7f\xff", b"T\x7f\xff\xff\xff\0", b"R\0\0\0\1\0t\0d\x7f\xff"]), st.binary(max_size=99)
)
def test_a_great_count_takes_no_memory_before_it_is_believed(head: bytes, rest: bytes) -> None:
    tracemalloc.start()
    try:
        decode_message(head + rest)
    except DecodeError:
        pass
    finally:
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    # Ten times the input would be 1,060 bytes; an exception and its frames are some kilobytes whatever the input.
    assert peak_bytes < 50_000


def test_the_widest_row_of_the_smallest_values() -> None:
    """32,767 columns of a byte each: the most that a count can say."""
    message = decode_message(b"I\0\0\0\1N\x7f\xff" + b"n" * 32_767)

    assert message == Insert(1, (None,) * 32_767)
