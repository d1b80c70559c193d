"""The body of a snapshot frame: whole lines behind a head, or nothing; and names that are never given twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.contracts.frame import NO_OFFSET
from tidegate.contracts.snapshot import HEAD, SnapshotHead, decode_snapshot, reading_number
from tidegate.errors import DecodeError
from tidegate.events import EventIds
from tidegate.lsn import Lsn
from tidegate.position import Position

U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
LINES = st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"\\n") + b"\n"), max_size=20)


@st.composite
def heads(draw: st.DrawFn, rows: int) -> SnapshotHead:
    return SnapshotHead(
        snapshot=draw(st.binary(min_size=16, max_size=16)),
        relation_id=draw(U32),
        reading=draw(U64),
        first_row=draw(U64),
        rows=rows,
        read_at=draw(st.integers(-(2**63), 2**63 - 1)),
        low=Position(Lsn(draw(U64)), draw(U64)),
        low_offset=draw(U64),
        is_last=draw(st.booleans()),
    )


@given(st.data(), LINES)
def test_a_body_comes_back_as_it_was(data: st.DataObject, lines: list[bytes]) -> None:
    head, text = data.draw(heads(len(lines))), b"".join(lines)
    assert decode_snapshot(head.encode() + text) == (head, text)


@given(st.data(), LINES.filter(bool))
def test_cut_anywhere_it_is_refused(data: st.DataObject, lines: list[bytes]) -> None:
    body = data.draw(heads(len(lines))).encode() + b"".join(lines)
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(DecodeError) as refused:
        decode_snapshot(body[:cut])
    assert refused.value.code == ("SNAPSHOT_HEAD" if cut < HEAD.size else "SNAPSHOT_ROWS")


def test_flags_that_are_not_known_are_refused() -> None:
    body = SnapshotHead(bytes(16), 1, 0, 0, 0, 0).encode()
    with pytest.raises(DecodeError, match="flags 0x2"):
        decode_snapshot(b"\x02" + body[1:])


def test_rows_of_an_exported_snapshot_have_no_window() -> None:
    assert not SnapshotHead(bytes(16), 1, 0, 0, 0, 0).has_window
    assert SnapshotHead(bytes(16), 1, 0, 0, 0, 0, low_offset=0).has_window
    assert SnapshotHead(bytes(16), 1, 0, 0, 0, 0).low_offset == NO_OFFSET


def test_a_row_has_one_id_in_whatever_frame_it_stands() -> None:
    """The id goes by the number within the reading; another reading, table or snapshot gives another."""
    first = SnapshotHead(bytes(16), 7, reading_number(3, 0), 0, 10, read_at=0)
    ids = {
        head.ids(1).id(5)
        for head in (
            first,
            SnapshotHead(bytes(15) + b"1", 7, first.reading, 0, 10, read_at=0),
            SnapshotHead(bytes(16), 8, first.reading, 0, 10, read_at=0),
            SnapshotHead(bytes(16), 7, reading_number(3, 1), 0, 10, read_at=0),
            SnapshotHead(bytes(16), 7, reading_number(4, 0), 0, 10, read_at=0),
        )
    }
    assert len(ids) == 5
    assert first.ids(1).id(5) == SnapshotHead(bytes(16), 7, first.reading, 4, 2, read_at=0, is_last=True).ids(1).id(5)
    assert "00dc6acfac00-7" in first.ids(1).id(5).replace("-", "", 1)


def test_the_id_is_the_formula_of_a_transaction() -> None:
    """What compiled kernels do for a transaction, they do for a reading: written down in docs/decisions/0070."""
    head = SnapshotHead(bytes(16), 7, 1, 0, 1, read_at=5)
    name = 0x458EBB92E803073E
    assert head.ids(1).id(0) == EventIds(system_id=1, commit_lsn=Lsn(name), xid=0, commit_time=5).id(0)
