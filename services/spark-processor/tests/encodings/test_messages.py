"""Logical messages as events."""

import json

from tidegate.lsn import Lsn
from tidegate.pgoutput.messages import LogicalMessage
from tidegate_processor.encodings.envelope import EventContext
from tidegate_processor.encodings.messages import JsonMessagePlan

CONTEXT = EventContext(pipeline="shop", database="shopdb", system_id=7412345678901234567)


def test_a_message_is_an_event_with_its_content_in_base64() -> None:
    message = LogicalMessage(1, Lsn(0x16B3700), "outbox", b"\x00\xff")
    event = JsonMessagePlan(CONTEXT).encode(message, xid=750, commit_lsn=Lsn(0x16B3748), commit_time=0, ordinal=4)

    told = json.loads(event.value)
    assert event.key == b'{"prefix":"outbox"}'
    assert event.table is None
    assert told["channel"] == "pg_logical_message"
    assert told["operation"] == "MESSAGE"
    assert told["payload"] == {
        "op": "m",
        "table": None,
        "row": None,
        "old": None,
        "unchanged": [],
        "message": {"prefix": "outbox", "content": "AP8="},
    }
