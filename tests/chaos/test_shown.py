"""The consumer of large tables: what it must find wrong."""

import pytest
from chaos.fleet.deliveries import Arrived
from chaos.fleet.judge import Violation
from chaos.fleet.shown import Shown
from chaos.fleet.tables import Number


def arrived(ordinal: int, *, old: int | None = None, new: int | None = None, identity: str = "") -> Arrived:
    payload = {"table": "wide", "old": _row(old), "row": _row(new), "unchanged": []}
    event = {"id": identity or f"id {ordinal}", "operation": "any", "payload": payload}
    position = {"commit_lsn": "0/10", "ordinal": Number(str(ordinal))}
    return Arrived("topic", 0, ordinal, None, b"", event | {"position": position})


def _row(id_: int | None) -> dict[str, object] | None:
    return None if id_ is None else {"id": Number(str(id_)), "text": None}


@pytest.mark.parametrize(
    ("again", "expected"),
    [
        (arrived(2, new=2, identity="id 1"), Violation("I5", "wide: an event came twice")),
        (arrived(1, new=2, identity="another"), Violation("I4", "wide: a position goes back")),
    ],
)
def test_what_comes_twice_or_goes_back_is_told(again: Arrived, expected: Violation) -> None:
    shown = Shown()
    shown.take(arrived(1, new=1))
    shown.take(again)

    assert shown.wrong == [expected]


def test_a_key_that_moves_leaves_nothing_behind() -> None:
    shown = Shown()
    shown.take(arrived(1, new=1))
    shown.take(arrived(2, old=1, new=2))

    assert (shown.holds("wide", 1), shown.holds("wide", 2)) == (False, True)
