"""What PostgreSQL 14 to 18 sent under protocols 1 to 4: decoded whole, refused when cut, and the same as elsewhere."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from kit.captures import Capture, Sent, captures, other_decoder, payloads, sent
from kit.other_decoder import UNCHANGED as NOT_SENT
from kit.other_decoder import OtherChange, parse

from tidegate.errors import DecodeError
from tidegate.pgoutput import RelationMap, decode_envelope, decode_message, encode_message
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
    OldKind,
    Origin,
    Relation,
    RollbackPrepared,
    Row,
    StreamAbort,
    StreamCommit,
    StreamPrepare,
    StreamStart,
    StreamStop,
    Truncate,
    Type,
    Update,
)
from tidegate.position import Position

ALL = captures()
TEXT = [capture for capture in ALL if "binary" not in str(capture)]
PLAIN = {Begin, Commit, Relation, Type, Insert, Update, Delete, Truncate, LogicalMessage, Origin}
STREAMED = {StreamStart, StreamStop, StreamCommit, StreamAbort}
TWO_PHASE = {CommitPrepared, RollbackPrepared, BeginPrepare, StreamPrepare}


def test_there_is_one_of_every_server_and_protocol() -> None:
    expected = {(14, 1), (14, 2), (15, 1), (15, 2), (15, 3)}
    expected |= {(major, protocol) for major in (16, 17, 18) for protocol in (1, 2, 3, 4)}

    assert {(capture.major, capture.protocol) for capture in ALL} == expected


@pytest.mark.parametrize("capture", ALL, ids=str)
def test_every_message_follows_the_table_and_encodes_to_its_bytes(capture: Capture) -> None:
    for each in sent(capture):
        assert each.raw == encode_message(each.message)


@pytest.mark.parametrize("capture", ALL, ids=str)
def test_every_kind_of_message_was_captured(capture: Capture) -> None:
    kinds = {type(each.message) for each in sent(capture)}
    expected = PLAIN | (STREAMED if capture.protocol >= 2 else set()) | (TWO_PHASE if capture.protocol >= 3 else set())

    assert not expected - kinds


@pytest.mark.parametrize("capture", [each for each in ALL if each.protocol == 4], ids=str)
def test_under_parallel_streaming_an_abort_says_where_and_when(capture: Capture) -> None:
    aborts = [each.message for each in sent(capture) if isinstance(each.message, StreamAbort)]

    assert {abort.abort_lsn is not None and abort.abort_time is not None for abort in aborts} == {True}
    assert {abort.subxid == abort.xid for abort in aborts} == {True, False}


def _shapes(capture: Capture) -> Iterator[Sent]:
    """One message of each tag and length: the others are cut at the same places."""
    seen = set()
    for each in sent(capture):
        shape = (each.raw[:1], len(each.raw), each.in_stream)
        if shape not in seen:
            seen.add(shape)
            yield each


@pytest.mark.parametrize("capture", ALL, ids=str)
def test_a_message_cut_at_any_length_is_refused(capture: Capture) -> None:
    for each in _shapes(capture):
        for length in range(len(each.raw)):
            with pytest.raises(DecodeError):
                decode_message(each.raw[:length], in_stream=each.in_stream, parallel=capture.is_parallel)


@pytest.mark.parametrize("capture", ALL, ids=str)
def test_a_byte_behind_a_message_is_refused(capture: Capture) -> None:
    for each in _shapes(capture):
        with pytest.raises(DecodeError):
            decode_message(each.raw + b"\0", in_stream=each.in_stream, parallel=capture.is_parallel)


@pytest.mark.parametrize("capture", ALL, ids=str)
def test_the_twin_of_the_other_case_is_never_taken_for_it(capture: Capture) -> None:
    """b and B, c and C, p and P, k and K, r and R: refused, or a message of its own that encodes to its bytes."""
    for each in _shapes(capture):
        twin = each.raw[:1].swapcase() + each.raw[1:]
        try:
            message = decode_message(twin, in_stream=each.in_stream, parallel=capture.is_parallel)
        except DecodeError:
            continue
        assert type(message) is not type(each.message)
        assert twin == encode_message(message)


@pytest.mark.parametrize("capture", ALL, ids=str)
def test_envelopes_cut_short_are_refused(capture: Capture) -> None:
    for payload in payloads(capture.path):
        for length in range(25 if payload[:1] == b"w" else len(payload)):
            with pytest.raises(DecodeError):
                decode_envelope(payload[:length])


@pytest.mark.parametrize("capture", ALL, ids=str)
def test_the_wrong_side_of_a_stream_is_noticed(capture: Capture) -> None:
    """With or without an xid the same bytes mean another thing: one of the two is refused, or says so in its values."""
    for each in _shapes(capture):
        try:
            other = decode_message(each.raw, in_stream=not each.in_stream, parallel=capture.is_parallel)
        except DecodeError:
            continue
        assert each.raw == encode_message(other)
        assert type(other) not in {Insert, Update, Delete} or other != each.message


Rows = dict[int, list[OtherChange]]


@cache
def _committed(capture: Capture) -> Rows:
    """Row changes by the xid that committed them, as test_decoding would write their values."""
    relations, found, pending = RelationMap(), Rows(), defaultdict[int, list[tuple[int | None, OtherChange]]](list)
    open_xid, streamed = 0, None
    for each in sent(capture):
        match each.message:
            case Begin(_, _, xid) | BeginPrepare(_, _, _, xid):
                open_xid = xid
            case StreamStart(xid):
                open_xid = streamed = xid
            case StreamStop():
                streamed = None
            case Relation() | Type():
                relations.learn(each.message, xid=streamed)
            case Insert() | Update() | Delete():
                relation = relations.relation(each.message.relation_id, xid=streamed)
                pending[open_xid].append((each.message.xid, _as_other(each.message, relation)))
            case StreamAbort(xid, subxid):
                kept = [] if xid == subxid else [(sub, row) for sub, row in pending[xid] if sub != subxid]
                pending[xid] = kept
            case Commit():
                found[open_xid] = [row for _, row in pending.pop(open_xid, [])]
            case StreamCommit(xid) | StreamPrepare(_, _, _, xid) as end:
                relations.promote(xid)
                if isinstance(end, StreamCommit):
                    found[xid] = [row for _, row in pending.pop(xid, [])]
            case CommitPrepared(_, _, _, xid):
                found[xid] = [row for _, row in pending.pop(xid, [])]
            case RollbackPrepared(_, _, _, _, xid):
                pending.pop(xid, None)
            case _:
                pass
    return {xid: rows for xid, rows in found.items() if rows}


def _as_other(message: Insert | Update | Delete, relation: Relation) -> OtherChange:
    change = OtherChange(f"{relation.schema}.{relation.name}", type(message).__name__.upper())
    if not isinstance(message, Delete):
        change.new = _values(message.new, relation.columns, skip_nulls=False)
    if not isinstance(message, Insert) and message.old is not None:
        key_only = message.old_kind is OldKind.KEY
        columns = [column if not key_only or column.is_key else None for column in relation.columns]
        change.old = _values(message.old, columns, skip_nulls=True)
    return change


def _values(row: Row, columns: Any, *, skip_nulls: bool) -> dict[str, object]:
    found: dict[str, object] = {}
    for value, column in zip(row, columns, strict=True):
        if column is None or (value is None and skip_nulls):
            continue
        assert isinstance(column, Column)
        assert not isinstance(value, Binary)
        found[column.name] = NOT_SENT if value is UNCHANGED else None if value is None else value.decode()
    return found


@cache
def _of_the_other(major: int) -> Rows:
    found, xid = Rows(), 0
    for line in other_decoder(major):
        if line.startswith("BEGIN "):
            xid = int(line.split()[1])
        elif (change := parse(line)) is not None:
            found.setdefault(xid, []).append(change)
    return found


@pytest.mark.parametrize("capture", TEXT, ids=str)
def test_test_decoding_says_the_same_of_every_transaction(capture: Capture) -> None:
    """Each column of each row of each xid: its text, NULL, or not sent; and what was undone is in neither."""
    ours, theirs = _committed(capture), _of_the_other(capture.major)

    assert theirs.keys() == ours.keys()
    for xid, rows in theirs.items():
        assert rows == ours[xid]
    assert sum(map(len, ours.values())) > 900


@pytest.mark.parametrize("major", [14, 15, 16, 17, 18])
def test_a_transaction_has_the_same_positions_under_every_protocol(major: int) -> None:
    """Whether it was streamed, prepared or sent whole, its end has the same position: ordinals count survivors."""
    ends = []
    for capture in (each for each in TEXT if each.major == major):
        kinds = (Commit, StreamCommit, CommitPrepared)
        ends.append({each.position for each in sent(capture) if isinstance(each.message, kinds) and each.position})

    assert all(isinstance(end, Position) for end in ends[0])
    # A server of 14 sends empty transactions; what one session has, all have.
    counts = Counter(len(end) for end in ends)
    assert len(counts) == 1
    assert all(end == ends[0] for end in ends)
