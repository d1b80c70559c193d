"""The parts of snapshots that hold no socket: pages, records, pace, SQL, and what a transaction contains."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.contracts.ack import Ack
from tidegate.contracts.missed import Missed
from tidegate.contracts.snapshot_request import Comparison, RowFilter
from tidegate.contracts.snapshot_status import SnapshotKind, SnapshotState
from tidegate.errors import DecodeError
from tidegate.lsn import Lsn
from tidegate.position import BEGINNING
from tidegate_reader.snapshot.delivery import is_delivered, is_lost
from tidegate_reader.snapshot.pages import Heap
from tidegate_reader.snapshot.queries import condition_of, rows_of
from tidegate_reader.snapshot.records import (
    SnapshotRecord,
    TableRecord,
    decode_snapshot_record,
    decode_table_record,
)
from tidegate_reader.snapshot.seen import Seen
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
    first.since = "735"
    first.finish((0, 10))
    first.take(20)
    table = TableRecord(
        snapshot="ab", relation_id=5, schema="public", table="orders", state=SnapshotState.RUNNING, heaps=[first],
        has_key=True, horizon="731", rows=9, size=80, is_one_reading=False, moved=[4],
    )  # fmt: skip
    found = decode_table_record(table.encode())
    assert found.heaps[0].taken == [(0, 10)]
    first.pass_over()
    assert decode_table_record(table.encode()).heaps[0].passing is None
    first.passing = None
    first.give_back()
    assert found == table
    snapshot = SnapshotRecord(
        id="ab", kind=SnapshotKind.REQUESTED, state=SnapshotState.PAUSED, by="somebody", requested=3,
        tables=("public.orders",), filters=(RowFilter("public.orders", "id", Comparison.EQUAL, "1"),),
    )  # fmt: skip
    assert decode_snapshot_record(snapshot.encode()) == snapshot


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 1000), min_size=2, max_size=9))
def test_what_moved_is_looked_for_since_the_oldest_reading_whichever_connection_tells_first(
    start: int, above: list[int]
) -> None:
    """A row that moved between the older reading and the one that was told first was passed over."""
    table = TableRecord(
        snapshot="ab", relation_id=5, schema="public", table="orders", state=SnapshotState.RUNNING, heaps=[heap(9)],
        has_key=True,
    )  # fmt: skip
    for each in above:
        table.note_reading((start + each) % 2**32, is_exported=False)
    assert table.horizon == str((start + min(above)) % 2**32)
    assert not table.is_one_reading


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


def test_rows_that_no_sink_can_find_any_more_are_read_again() -> None:
    done = SnapshotRecord(
        id="ab", kind=SnapshotKind.INITIAL, state=SnapshotState.DONE, by="configuration", requested=0,
        topic_id="one", first_offset=10, end_offset=50,
    )  # fmt: skip
    required = ("orders",)

    def ack(offset: int, topic: str = "one") -> dict[str, Ack]:
        return {"orders": Ack("orders", "g", 1, topic, offset, BEGINNING, Lsn(0), 0)}

    def missing(begin: int, end: int, offset: int = 60) -> dict[str, Ack]:
        return {"orders": replace(ack(offset)["orders"], missed=Missed(begin, end))}

    assert is_lost(done, missing(20, 40), required, "one", 40), "it came in behind what retention took"
    assert not is_delivered(done, missing(20, 40), required)
    assert is_lost(done, missing(5, 12), required, "one", 12)
    assert not is_lost(done, missing(5, 11), required, "one", 11), "all of it stands behind its first offset"
    assert not is_lost(done, missing(51, 60), required, "one", 60), "and up to its last"
    assert is_lost(replace(done, end_offset=0), missing(51, 60), required, "one", 60), "of which more is to come"
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
