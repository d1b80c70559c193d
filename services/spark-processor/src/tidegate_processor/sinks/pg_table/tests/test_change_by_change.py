"""Frames that do not come in table by table: a value is refused, or tables refer to each other."""

from pathlib import Path

import pytest
from kit.frames import row
from kit.pg_targets import KEYED, TEXT, deliver, relation
from kit.sink_rigs import PgTableRig

from tidegate.pgoutput.messages import UNCHANGED, Column, Insert, OldKind, Relation, Truncate, Update
from tidegate_processor.sinks.shared import pg_connection


@pytest.fixture
def rig(prefix: str, kafka, postgres, tmp_path: Path) -> PgTableRig:
    return PgTableRig(prefix, kafka.bootstrap, "redis://127.0.0.1:1", tmp_path, postgres)


def test_a_frame_that_comes_in_change_by_change_is_not_silent(rig: PgTableRig, monkeypatch) -> None:
    """A lane that said nothing for 15 s was killed, and met the same frame again: for ever."""
    monkeypatch.setattr(pg_connection, "_SPEAK_SECONDS", 0.0)
    spoken: list[bool] = []
    rig.ask("CREATE TABLE orders (id int PRIMARY KEY, note varchar(5))")
    messages = [row(at, "long!!" if at == 7 else "short") for at in range(50)]
    receipt = deliver(rig, [relation(*KEYED)], messages, speak=lambda: spoken.append(True))
    assert (len(receipt.rejected), len(rig.rows())) == (1, 49)
    assert len(spoken) >= 50


def test_a_row_that_moved_with_text_that_is_none_is_a_dead_letter_and_the_rest_goes_on(rig: PgTableRig) -> None:
    """Of a SQL_ASCII source, with a value that was not sent: it ended the lane, which met it again, for ever."""
    with_more = relation(*KEYED, Column(0, "more", TEXT, -1))
    there, other = (Insert(with_more.relation_id, (key, b"text", b"large")) for key in (b"1", b"2"))
    moved = Update(with_more.relation_id, OldKind.KEY, (b"1", None, None), (b"7", b"\xff", UNCHANGED))
    receipt = deliver(rig, [with_more], [there, moved, other])
    assert [each.error.code for each in receipt.rejected] == ["VALUE_NOT_UTF8"]
    assert (receipt.events, sorted(rig.rows())) == (2, [1, 2])


def referring(rig: PgTableRig) -> tuple[Relation, Relation]:
    """Targets with a foreign key, and a row each."""
    rig.ask("CREATE TABLE orders (id int PRIMARY KEY, note text)")
    rig.ask("CREATE TABLE items (id int PRIMARY KEY, note text, of int DEFAULT 1 REFERENCES orders)")
    orders, items = relation(*KEYED), relation(*KEYED, name="items", relation_id=16_400)
    deliver(rig, [orders, items], [row(1), Insert(items.relation_id, (b"1", b"x"))])
    return orders, items


def test_tables_that_refer_to_each_other_are_truncated_together(rig: PgTableRig) -> None:
    orders, items = referring(rig)
    both = Truncate((orders.relation_id, items.relation_id), 0)
    receipt = deliver(rig, [orders, items], [row(2), both, row(3)])
    assert receipt.rejected == ()
    assert (list(rig.rows()), rig.ask("SELECT count(*) FROM items")) == ([3], [(0,)])


def test_a_table_that_another_still_refers_to_is_not_truncated_and_the_rest_goes_on(rig: PgTableRig) -> None:
    orders, items = referring(rig)
    receipt = deliver(rig, [orders, items], [Truncate((orders.relation_id,), 0), row(2)])
    assert [each.error.code for each in receipt.rejected] == ["SINK_PG_ROW_REFUSED"]
    assert sorted(rig.rows()) == [1, 2]
