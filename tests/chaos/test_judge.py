"""The judge alone: what agrees passes, and each lie is told by the invariant it breaks."""

import json
from dataclasses import replace
from typing import Any

import pytest
from chaos.fleet.deliveries import Arrived
from chaos.fleet.ids import expected_id
from chaos.fleet.judge import Judge, _not_durable, _outcomes, _transactions
from chaos.fleet.ledger import Entry, Outcome
from chaos.fleet.mirror import Mirror
from chaos.fleet.raw_watch import wrong_with
from chaos.fleet.sampler import Sample
from chaos.fleet.tables import Number, as_json, parse
from chaos.fleet.witness import Seen, Transaction
from kit.frames import RawLog, row

from tidegate.contracts.frame import decode_frame, encode_frame

NONE: frozenset[Any] = frozenset()


def arrived(xid: int, ordinal: int, token: str, *, commit: int = 0x100, offset: int = 0) -> Arrived:
    event = {
        "id": "none",
        "operation": "INSERT",
        "payload": {"op": "c", "table": "orders", "row": {"id": 1, "token": token}, "old": None, "unchanged": []},
        "source": {"system_id": "7412345678901234567"},
        "position": {"commit_lsn": f"0/{commit:X}", "ordinal": ordinal, "lsn": "0/1"},
        "transaction": {"xid": xid, "commit_time": "2026-11-12T15:25:45.678901Z", "seq": ordinal + 1},
    }
    value = json.dumps(event).encode()
    return Arrived("t", 0, offset, b"k", value, parse(value))


def seen(token: str) -> Seen:
    return Seen("orders", "INSERT", {"id": "1", "token": token}, {})


WITNESSED = [Transaction(7, [seen("a"), seen("b")])]
EVENTS = [arrived(7, 0, "a"), arrived(7, 1, "b")]


def test_what_agrees_is_no_violation() -> None:
    assert list(_transactions(WITNESSED, EVENTS, NONE)) == []
    assert list(_outcomes([Entry(0, 7, ["a", "b"], ["c"], Outcome.OK)], EVENTS, NONE)) == []


@pytest.mark.parametrize(
    ("invariant", "events"),
    [
        ("I1", EVENTS[:1]),
        ("I1", [arrived(7, 0, "a"), arrived(7, 1, "another value")]),
        ("I2", [*EVENTS, arrived(7, 2, "c")]),
        ("I2", [*EVENTS, arrived(8, 0, "of nobody")]),
        ("I4", [arrived(7, 0, "a"), arrived(7, 2, "b")]),
    ],
)
def test_a_transaction_that_differs_from_the_witness(invariant: str, events: list[Arrived]) -> None:
    found = list(_transactions(WITNESSED, events, NONE))

    assert [violation.invariant for violation in found] == [invariant]


def test_a_dead_letter_stands_for_its_event() -> None:
    assert list(_transactions(WITNESSED, EVENTS[:1], frozenset({(7, 1)}))) == []


TRUNCATED = "TRUNCATE"


@pytest.mark.parametrize(
    ("has_one_writer", "stand", "is_right"),
    [
        (True, ["a1", "b2", "a3"], True),
        (True, ["a1", "b3", "a2"], False),
        (False, ["a1", "b3", "a2"], True),
        (False, ["a2", "b3", "a1"], False),
        (False, ["a1", "a1"], False),
        (False, ["b1", "a2", f"{TRUNCATED}3", "a4", "b5"], True),
        (False, ["b1", f"{TRUNCATED}3", "a2", "b5"], False),
        (False, ["b1", "a4", f"{TRUNCATED}3", "b5"], False),
    ],
)
def test_order_within_a_partition_or_of_each_key(has_one_writer: bool, stand: list[str], is_right: bool) -> None:
    """Keys and ordinals as they stand in the partition."""
    judge = Judge(Mirror(), ("events",), has_one_writer=has_one_writer)
    events = [arrived(7, int(each[-1]), each, offset=offset) for offset, each in enumerate(stand)]
    found = judge._one_by_one(_of(each, event) for each, event in zip(stand, events, strict=True))

    assert is_right is not any(violation.invariant == "I4" for violation in found)


def _of(stands: str, event: Arrived) -> Arrived:
    if stands.startswith(TRUNCATED):
        return replace(event, key=None, event=event.event | {"operation": TRUNCATED})
    return replace(event, key=stands[:-1].encode())


@pytest.mark.parametrize(
    ("invariant", "entry"),
    [
        ("I1", Entry(0, 7, ["a", "b", "c"], [], Outcome.OK)),
        ("I1", Entry(0, 7, ["a", "b", "c"], [], Outcome.INFO)),
        ("I2", Entry(0, 7, ["a", "b"], [], Outcome.FAIL)),
        ("I2", Entry(0, 7, ["a", "b"], ["b"], Outcome.OK)),
    ],
)
def test_an_outcome_that_is_not_what_a_writer_was_told(invariant: str, entry: Entry) -> None:
    assert [violation.invariant for violation in _outcomes([entry], EVENTS, NONE)] == [invariant]


def test_an_xid_that_a_crash_has_set_free_is_another_transactions() -> None:
    lost = [Entry(0, 7, ["x"], [], Outcome.FAIL), Entry(1, 7, ["y"], [], Outcome.INFO)]
    assert list(_outcomes([*lost, Entry(2, 7, ["a", "b"], [], Outcome.OK)], EVENTS, NONE)) == []


def sample(time: float, confirmed: int, end: int) -> Sample:
    return Sample(time, "server", confirmed, 0, {}, {("t", 0): end})


def test_what_is_confirmed_must_be_readable_a_moment_later() -> None:
    """A transaction's markers follow its commit, so the same end a second later is what counts."""
    [event] = [arrived(7, 0, "a", commit=0x100, offset=5)]
    early = [sample(0.0, 0x200, 5), sample(1.1, 0x200, 5)]
    in_time = [sample(0.0, 0x200, 5), sample(1.1, 0x200, 6)]

    assert [violation.invariant for violation in _not_durable(early, [event])] == ["I3"]
    assert list(_not_durable(in_time, [event])) == []
    assert list(_not_durable([replace(each, confirmed=0x100) for each in early], [event])) == []


def test_a_frame_that_ends_with_a_commit_must_let_it_go() -> None:
    log = RawLog()
    whole = log.transaction(row(1))
    frame = decode_frame(whole)
    stingy = encode_frame(replace(frame.header, safe_lsn=frame.header.last.commit_lsn), frame.schema, (frame.body,))

    assert wrong_with(0, whole) == []
    assert wrong_with(7, stingy) == ["the frame at raw offset 7 ends with a COMMIT, and does not let it go"]


def test_the_id_of_the_reference_page() -> None:
    """The page's own example."""
    event = parse(
        b'{"source": {"system_id": "7412345678901234567"}, "position": {"commit_lsn": "0/16B3748", "ordinal": 2},'
        b' "transaction": {"xid": 750, "commit_time": "2026-11-12T15:25:45.678901Z"}}'
    )

    assert expected_id(event) == "01a1d05d-6b4e-7cc8-9425-693598f5c1a0"


def test_values_are_those_of_the_reference_page() -> None:
    assert as_json("id", "12") == Number("12")
    assert as_json("v_float", "NaN") == "NaN"
    assert as_json("v_time", "2026-11-18 13:04:05+00") == "2026-11-18T13:04:05Z"
    assert as_json("v_time", "0044-03-15 12:00:00+00 BC") == "0044-03-15 12:00:00+00 BC"
    assert as_json("v_bytes", "\\x00ff10") == "AP8Q"
    assert as_json("v_ints", "{1,NULL,-3}") == [Number("1"), None, Number("-3")]
    assert as_json("v_json", "null") is None
