"""A lane's delivery without Spark, Kafka and Redis, as its sink is configured; and rows of a table that was changed."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kit.frames import ORDERS, RawLog
from kit.memory_sink import delivery_into

from tidegate.config.sinks import SinkConfig
from tidegate.contracts.ack import Ack
from tidegate.contracts.cursor import Cursor
from tidegate.pgoutput.messages import Column, Insert
from tidegate.position import BEGINNING
from tidegate_processor.commit import Delivery
from tidegate_processor.kafka_clients import RawTopicView
from tidegate_processor.sinks.base import Sink

ADDED = replace(ORDERS, columns=(*ORDERS.columns, Column(0, "weight", 701, -1)))
REFUSING = {"schema_changes": {"column_added": "dead_letter"}}


def lane(**settings: Any) -> SinkConfig:
    return SinkConfig.model_validate_json(json.dumps({"name": "events", "type": "kafka_topics", **settings}))


def deliver(
    sink: Sink,
    *,
    topic: str = "topic",
    beginning: int = 0,
    acked: Callable[[str], Ack | None] = lambda _: None,
    **settings: Any,
) -> Delivery:
    return delivery_into(sink, config=lane(**settings), raw=RawTopicView(topic, beginning, 1000), acked=acked)


def feed(delivery: Delivery, log: RawLog, start: int = 0) -> None:
    delivery.feed(list(enumerate(log.frames))[start:])
    delivery.commit(at_the_end=True)


def weighed(number: int, note: str = "") -> Insert:
    """A row of `ADDED`."""
    return Insert(ORDERS.relation_id, (str(number).encode(), note.encode(), b"1.5"))


def to_the_beginning(cursor: Cursor) -> Cursor:
    """As `rewind.rewound` sets it back."""
    back = replace(cursor, epoch=0, epoch_nonce="", seq=-1, next_offset=0, position=BEGINNING, safe_lsn=0)
    return replace(back, rewound_from=cursor.position)
