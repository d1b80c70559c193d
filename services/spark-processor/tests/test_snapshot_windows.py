"""Whatever happens to a table while its rows are read: a sink that keeps rows by key ends with the table."""

from dataclasses import replace
from typing import Any, NamedTuple

from hypothesis import event, given, settings
from hypothesis import strategies as st
from kit.frames import ORDERS, RawLog
from kit.memory_sink import MemorySink, delivery_into

from tidegate.events import Operation
from tidegate.pgoutput.messages import UNCHANGED, Column, Delete, Insert, Message, OldKind, Truncate, Update
from tidegate.position import Position

TABLE = replace(ORDERS, columns=(*ORDERS.columns, Column(0, "big", 25, -1)))
ID = TABLE.relation_id
MISSING = b"was not sent"

Row = tuple[bytes, bytes]
"""Note and the value that may be stored out of line."""


class Done(NamedTuple):
    message: Message
    table: dict[bytes, Row]
    """As it is afterwards."""


keys = st.sampled_from([b"1", b"2", b"3"])
attempts = st.lists(st.tuples(st.sampled_from("iuuuumdT"), keys, keys, st.booleans()), max_size=12)


def happened(table: dict[bytes, Row], tried: list[tuple[str, bytes, bytes, bool]]) -> list[Done]:
    """What of it a table allows, each a transaction; every value is another one."""
    done: list[Done] = []
    for number, (kind, key, other, sends_all) in enumerate(tried):
        note, big = b"note%d" % number, b"big%d" % number
        message: Message | None = None
        table = dict(table)
        if kind == "T":
            table, message = {}, Truncate((ID,), 0)
        elif kind == "i" and key not in table:
            table[key] = (note, big)
            message = Insert(ID, (key, note, big))
        elif kind == "d" and key in table:
            del table[key]
            message = Delete(ID, OldKind.KEY, (key, None, None))
        elif kind in "um" and key in table and (kind == "u" or other not in table):
            now = key if kind == "u" else other
            before = table.pop(key)
            table[now] = (note, big if sends_all else before[1])
            old = None if kind == "u" else (key, None, None)
            sent = (now, note, big if sends_all else UNCHANGED)
            message = Update(ID, None if old is None else OldKind.KEY, old, sent)
        if message is not None:
            done.append(Done(message, table))
    return done


def kept_by_key(changes: list[Any]) -> dict[bytes, Row]:
    rows: dict[bytes, Row] = {}
    for change in changes:
        message = change.message
        if isinstance(message, Truncate):
            rows.clear()
            continue
        old = message.old[0] if getattr(message, "old", None) else getattr(message, "new", (None,))[0]
        before = rows.pop(old, (MISSING, MISSING))
        if not isinstance(message, Delete):
            key, note, big = message.new
            rows[key] = (note, before[1] if big is UNCHANGED else big)
    return rows


@settings(max_examples=400, deadline=None)
@given(st.dictionaries(keys, st.just((b"old", b"old big"))), attempts, st.data())
def test_a_sink_that_keeps_rows_by_key_ends_with_the_table(
    before: dict[bytes, Row], tried: list[tuple[str, bytes, bytes, bool]], data: st.DataObject
) -> None:
    done = happened(before, tried)
    low = data.draw(st.integers(0, len(done)), "all of these are contained in the rows")
    read = data.draw(st.integers(low, len(done)), "when they were read")
    framed = data.draw(st.integers(read, len(done)), "where they stand")
    log, sink = RawLog(), MemorySink()
    log.epoch()
    low_position: Position = log.position
    for number, each in enumerate(done[:framed]):
        log.transaction(each.message, relation=TABLE)
        low_position = log.position if number < low else low_position
    rows = done[read - 1].table if read else before
    log.snapshot(*((key, *row) for key, row in rows.items()), low=low_position, low_offset=1 + low, relation=TABLE)
    for each in done[framed:]:
        log.transaction(each.message, relation=TABLE)

    delivery = delivery_into(sink)
    delivery.feed(enumerate(log.frames))
    delivery.commit()

    truth, kept = done[-1].table if done else before, kept_by_key(sink.delivered)
    event(f"{sum(change.operation is Operation.SNAPSHOT for change in sink.delivered)} of {len(rows)} rows came")
    lacking = {key for key, (_, big) in kept.items() if big == MISSING}
    assert {key: row for key, row in truth.items() if key not in lacking} == {
        key: row for key, row in kept.items() if key not in lacking
    }
    assert {key: truth[key][0] for key in lacking} == {key: kept[key][0] for key in lacking}
    assert not lacking or takes_a_key_that_was_freed(done[low:framed])


def takes_a_key_that_was_freed(window: list[Done]) -> bool:
    """By an update that did not send every value: which row was read can't be told then (decision 75)."""
    freed: set[bytes] = set()
    for message, _ in window:
        if isinstance(message, Update) and message.old is not None and message.new[0] in freed:
            return True
        if isinstance(message, Delete) or (isinstance(message, Update) and message.old is not None):
            freed.add(message.old[0])  # type: ignore[index, arg-type]
    return False
