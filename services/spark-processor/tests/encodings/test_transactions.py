"""Begin and end of transactions as events: counts, positions, and none twice."""

import json
from typing import Any

from kit.frames import RawLog, row

from tidegate.contracts.frame import decode_frame
from tidegate.lsn import Lsn
from tidegate.pgoutput.messages import LogicalMessage
from tidegate.position import BEGINNING, Position
from tidegate_processor.encodings.envelope import EventContext
from tidegate_processor.encodings.transactions import TransactionEvents

EVENTS = TransactionEvents(EventContext("shop", "shopdb", 7))


def said(log: RawLog, after: Position = BEGINNING) -> list[dict[str, Any]]:
    return [json.loads(event) for frame in log.frames for _, event in EVENTS.of(decode_frame(frame), after)]


def test_a_transaction_has_a_begin_and_a_commit_that_counts() -> None:
    log = RawLog()
    log.transaction(row(1), row(2))
    begin, commit = said(log)

    assert (begin["operation"], commit["operation"]) == ("BEGIN", "COMMIT")
    assert begin["position"] == {"commit_lsn": "0/1010", "ordinal": 0}
    assert commit["position"] == {"commit_lsn": "0/1010", "ordinal": 2}
    assert (commit["changes"], commit["consistent_lsn"]) == (2, "0/1040")
    assert begin["transaction"] == commit["transaction"]
    assert begin["id"] != commit["id"]


def test_one_in_two_frames_has_them_once() -> None:
    log = RawLog()
    log.split_transaction([row(1)], [row(2), row(3)])

    assert [(each["operation"], each["position"]["ordinal"]) for each in said(log)] == [("BEGIN", 0), ("COMMIT", 3)]


def test_what_was_delivered_is_not_said_again() -> None:
    log = RawLog()
    log.transaction(row(1), row(2))
    log.transaction(row(3))

    assert [each["operation"] for each in said(log, Position(Lsn(0x1010), 1))] == ["COMMIT", "BEGIN", "COMMIT"]
    assert [each["operation"] for each in said(log, Position(Lsn(0x1010), 2))] == ["BEGIN", "COMMIT"]


def test_a_transaction_of_messages_alone_has_none() -> None:
    log = RawLog()
    log.transaction(LogicalMessage(1, Lsn(1), "tidegate", b""))

    assert said(log) == []
