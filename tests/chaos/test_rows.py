"""The oracles of snapshots alone: what agrees passes, and each lie is told."""

import json
from typing import Any

import pytest
from chaos.fleet.deliveries import Arrived
from chaos.fleet.mirror import Mirror, text_of
from chaos.fleet.rows import Read, missed
from chaos.fleet.stock import Copy
from chaos.fleet.tables import parse

ORDERS = [{"id": number, "token": f"t{number}", "note": "n", "filler": None} for number in (1, 2, 3)]
KEYLESS = {"token": "k", "n": 5}
EVERYTHING = Read("orders", lambda _row: True)


def arrived(operation: str, row: dict[str, Any] | None, *, table: str = "orders", **payload: Any) -> Arrived:
    event = {
        "id": json.dumps([operation, row, payload]),
        "operation": operation,
        "payload": {"table": table, "row": row, "old": None, "unchanged": [], **payload},
        "position": {"commit_lsn": "0/100", "ordinal": 2**40 + 7},
        "transaction": None,
    }
    value = json.dumps(event).encode()
    return Arrived("t", 0, 0, b"k", value, parse(value))


def mirror() -> Mirror:
    made = Mirror()
    for row in ORDERS:
        assert made.apply(arrived("INSERT", row)) is None
    assert made.apply(arrived("INSERT", KEYLESS, table="keyless")) is None
    return made


def rows(*numbers: int) -> list[Arrived]:
    return [arrived("SNAPSHOT", ORDERS[number - 1]) for number in numbers]


def test_a_row_that_nobody_touched_must_arrive() -> None:
    assert missed([EVERYTHING], mirror(), rows(1, 2, 3)) == []
    assert missed([EVERYTHING], mirror(), rows(1, 3)) == ["orders: 1 of the rows that a snapshot read did not arrive"]


@pytest.mark.parametrize(
    "change",
    [
        arrived("UPDATE", {**ORDERS[1], "note": "new"}),
        arrived("UPDATE", {**ORDERS[1], "id": 9}, old={"id": 2}),
        arrived("DELETE", None, old={"id": 2}),
        arrived("TRUNCATE", None),
    ],
)
def test_of_a_row_that_somebody_touched_the_stream_tells(change: Arrived) -> None:
    assert missed([EVERYTHING], mirror(), [*rows(1, 3), change]) == []


def test_only_what_was_asked_for_must_arrive() -> None:
    some = Read("orders", lambda row: row["id"].digits != "2")
    assert missed([some], mirror(), rows(1, 3)) == []


def test_a_table_without_a_key_is_compared_by_its_rows() -> None:
    read = Read("keyless", lambda row: row["n"][0] == "5")
    assert missed([read], mirror(), []) == ["keyless: 1 of the rows that a snapshot read did not arrive"]
    assert missed([read], mirror(), [arrived("SNAPSHOT", KEYLESS, table="keyless")]) == []
    assert text_of(parse(json.dumps(KEYLESS))) == text_of(next(mirror().whole()))


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        (ORDERS[0], None),
        ({**ORDERS[0], "note": "older"}, "orders: a snapshot's row is older than a change before it, in note"),
        ({**ORDERS[0], "id": 7}, "orders: a snapshot's row that is gone by then"),
    ],
)
def test_a_row_must_be_as_the_stream_has_left_it(row: dict[str, Any], wrong: str | None) -> None:
    assert mirror().apply(arrived("SNAPSHOT", row)) == wrong


def stock(kind: str, number: int, note: str, big: str | None = None, **payload: Any) -> Arrived:
    row = {"id": number, "note": note} | ({} if "unchanged" in payload else {"big": big})
    return arrived(kind, row, table="stock", **payload)


def test_a_copy_of_the_large_table_takes_what_comes_in_the_order_of_the_stream() -> None:
    copy = Copy()
    copy.take(stock("UPDATE", 1, "new", unchanged=["big"]))
    copy.take(stock("SNAPSHOT", 1, "new", "large"))
    copy.take(stock("UPDATE", 2, "moved", old={"id": 1}, unchanged=["big"]))
    copy.take(stock("SNAPSHOT", 2, "moved", "large"))
    assert (copy.holds(1), copy.holds(2), copy.wrong) == (False, True, [])


@pytest.mark.parametrize(
    ("second", "wrong"),
    [
        (stock("SNAPSHOT", 1, "older", None), "a snapshot's row that is older than a change before it"),
        (stock("INSERT", 1, "new", None), "an event came twice"),
    ],
)
def test_a_copy_tells_what_can_not_be(second: Arrived, wrong: str) -> None:
    copy = Copy()
    copy.take(stock("INSERT", 1, "new", None))
    copy.take(second)
    assert [what for _, what in copy.wrong] == [wrong]
