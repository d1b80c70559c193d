"""Options of every sink that delivers events: a sink's own options inherit them."""

from enum import StrEnum

from pydantic import Field

from tidegate.config.base import Model


class EventEnvelope(StrEnum):
    DEFAULT = "default"
    DEBEZIUM = "debezium"
    CLOUDEVENTS = "cloudevents"


class EventOptions(Model):
    envelope: EventEnvelope = Field(
        EventEnvelope.DEFAULT,
        description="The form of an event: `default` (docs/reference/event.md), `debezium` or `cloudevents` "
        "(docs/reference/envelopes.md).",
    )
