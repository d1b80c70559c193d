"""A sink's events in the envelope that its options name."""

import json

import pytest
from kit.frames import GENERATION, RawLog, row

from tidegate.config.sinks import SinkConfig, SinkType
from tidegate.contracts.frame import decode_frame
from tidegate.position import BEGINNING
from tidegate_processor.sinks.shared.events import EventEncoder

OWN = {"id", "channel", "operation", "payload", "source", "position", "created_at", "transaction"}


@pytest.mark.parametrize(
    ("options", "members"),
    [
        ({}, OWN),
        ({"envelope": "default"}, OWN),
        ({"envelope": "debezium"}, {"before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns"}),
        (
            {"envelope": "cloudevents"},
            {"specversion", "id", "source", "type", "subject", "time", "datacontenttype", "data"},
        ),
    ],
)
def test_an_event_has_the_members_of_the_envelope_chosen(options: dict[str, str], members: set[str]) -> None:
    log = RawLog(GENERATION)
    log.epoch()
    sink = SinkConfig(name="events", type=SinkType.KAFKA_TOPICS, options=options)
    encoded = EventEncoder("shop", sink, lambda *_: "t").encode(decode_frame(log.transaction(row(1))), BEGINNING)

    ((_, value),) = list(encoded.topics[0])
    assert set(json.loads(value)) == members
