"""Which writer a change is of, against the reference, and frames with some writers' changes alone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import reference
from kit.frames import ORDERS, RawLog
from kit.made_frames import frames

from tidegate.columns.owners import FrameOwners
from tidegate.contracts.frame import Frame, decode_frame
from tidegate.errors import DecodeError
from tidegate.ownership import owner, table_seed
from tidegate.pgoutput.messages import (
    UNCHANGED,
    Column,
    Delete,
    Insert,
    Message,
    OldKind,
    ReplicaIdentity,
    Truncate,
    Update,
)
from tidegate.position import BEGINNING, Position

MOVED = Update(ORDERS.relation_id, OldKind.KEY, (b"1", None), (b"2", b"x"))
CHANGED = Update(ORDERS.relation_id, None, None, (b"2", UNCHANGED))


def places(frame: Frame) -> list[tuple[Position, bytes | None]]:
    made = reference.encode(frame, lambda *_: "", "shop")
    return [(each.change.position, each.event.key) for each in made.events]


@settings(max_examples=100, deadline=None)
@given(frames(), st.integers(1, 5))
def test_the_shares_of_a_frame_are_the_frame(frame: Frame, writers: int) -> None:
    owners = FrameOwners(writers)
    try:
        owned = owners.of(frame, BEGINNING)
        whole = places(frame)
    except DecodeError:
        return
    assert ((owned.owners >= 0) & (owned.owners < writers)).all()
    if owned.is_for_all:  # is never divided
        return

    shares = [places(owners.only(frame, owned, owned.of(writer))) for writer in range(writers)]

    assert sorted(whole, key=repr) == sorted((place for share in shares for place in share), key=repr)
    for share in shares:  # each in the frame's order
        rest = iter(whole)
        assert all(place in rest for place in share)


def made(*changes: Message, identity: ReplicaIdentity = ReplicaIdentity.DEFAULT, name: str = "orders") -> Frame:
    log = RawLog()
    columns = ORDERS.columns
    if identity is ReplicaIdentity.FULL:
        columns = tuple(Column(1, each.name, each.type_oid, -1) for each in columns)
    relation = replace(ORDERS, replica_identity=identity, columns=columns, name=name)
    return decode_frame(log.transaction(*changes, relation=relation))


def owners_of(frame: Frame, writers: int = 5) -> list[int]:
    found: list[int] = FrameOwners(writers).of(frame, BEGINNING).owners.tolist()
    return found


@given(st.integers(-(2**31), 2**31 - 1), st.text("abc_", min_size=1, max_size=20), st.integers(1, 16))
@settings(max_examples=200, deadline=None)
def test_a_change_is_of_the_writer_that_the_reference_says(key: int, table: str, writers: int) -> None:
    frame = made(Insert(ORDERS.relation_id, (b"%d" % key, b"x")), name=table)

    expected = owner(table_seed("public", table), b'{"id":%d}' % key, writers)
    assert owners_of(frame, writers) == [expected]


def test_what_happens_to_a_key_is_one_writers() -> None:
    was = OldKind.KEY, (b"7", None)
    of_a_key = (Insert(16385, (b"7", b"a")), Update(16385, None, None, (b"7", b"b")), Delete(16385, *was))

    assert len({*owners_of(made(*of_a_key), 16)}) == 1


@pytest.mark.parametrize("identity", [ReplicaIdentity.FULL])
def test_all_of_a_table_without_a_key_of_its_own_is_one_writers(identity: ReplicaIdentity) -> None:
    rows = [Insert(16385, (b"%d" % key, b"x")) for key in range(50)]
    moved = Update(16385, OldKind.FULL, (b"1", b"x"), (b"100", b"x"))
    frame = made(*rows, moved, identity=identity)

    assert len({*owners_of(frame, 16)}) == 1
    assert not FrameOwners(16).of(frame, BEGINNING).is_for_all


@pytest.mark.parametrize(
    ("changes", "expected"), [((Truncate((16385,), 0),), True), ((MOVED,), True), ((CHANGED,), False), ((), False)]
)
def test_what_has_no_one_key_is_for_all(changes: tuple[Message, ...], expected: bool) -> None:
    frame = made(Insert(16385, (b"1", b"x")), *changes)

    assert expected == FrameOwners(2).of(frame, BEGINNING).is_for_all


def test_keys_are_spread_over_all_writers() -> None:
    frame = made(*(Insert(16385, (b"%d" % key, b"x")) for key in range(4_000)))

    shares = np.bincount(owners_of(frame, 4), minlength=4)
    assert shares.min() > 900


def test_what_a_writer_has_passed_is_left_out_by_that_writers_position() -> None:
    frame = made(*(Insert(16385, (b"%d" % key, b"x")) for key in range(10)))
    owned = FrameOwners(2).of(frame, BEGINNING)
    lsn = frame.header.last.commit_lsn

    above = owned.above([Position(lsn, 4), Position(lsn, 9)])

    assert [own == 0 and place > 4 for place, own in enumerate(owned.owners.tolist())] == above.tolist()
