"""Logical messages (pg_logical_emit_message) as events. Whether they are emitted at all is the caller's decision.

Only a transactional message has a position and can be an event; the others are dropped and counted before this.
"""

from base64 import b64encode

import orjson

from tidegate.errors import DecodeError
from tidegate.events import Operation
from tidegate.lsn import Lsn
from tidegate.pgoutput.messages import LogicalMessage
from tidegate_processor.encodings.envelope import EncodedEvent, Envelope, EventContext

MESSAGE_CHANNEL = "pg_logical_message"


class JsonMessagePlan:
    def __init__(self, context: EventContext) -> None:
        self._envelope = Envelope(context, channel=MESSAGE_CHANNEL, table=None, operations=(Operation.MESSAGE,))

    def encode(
        self, message: LogicalMessage, *, xid: int, commit_lsn: Lsn, commit_time: int, ordinal: int
    ) -> EncodedEvent:
        if not message.transactional:
            raise DecodeError("a message outside transactions has no position", code="MESSAGE_WITHOUT_POSITION")
        said = {"prefix": message.prefix, "content": b64encode(message.content).decode()}
        payload = b'"row":null,"old":null,"unchanged":[],"message":%b' % orjson.dumps(said)
        key = orjson.dumps({"prefix": message.prefix})
        transaction = (commit_lsn, xid, commit_time)
        return self._envelope.event(Operation.MESSAGE, key, payload, transaction, ordinal, message.lsn)
