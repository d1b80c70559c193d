"""Options of the `kafka_topics` sink."""

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from tidegate.config.base import Size, size
from tidegate.config.kafka import COPIES_DEFAULT, Compression
from tidegate.config.problems import refuse
from tidegate.errors import ConfigError
from tidegate_processor.encodings.topics import DEFAULT_TEMPLATE, check_template
from tidegate_processor.sinks.shared.event_options import EventEnvelope, EventOptions


class DeliveryGuarantee(StrEnum):
    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"


class CloudEventsMode(StrEnum):
    STRUCTURED = "structured"
    BINARY = "binary"


def _template(value: str) -> str:
    try:
        check_template(value)
    except ConfigError as error:
        raise refuse(code=error.code, reason=error.message, remedy=error.remedy) from error
    return value


class KafkaTopicsOptions(EventOptions):
    topic: Annotated[str, AfterValidator(_template)] = Field(
        DEFAULT_TEMPLATE, min_length=1, max_length=249, description="Name of a table's topic."
    )
    partitions: int = Field(1, ge=1, le=10_000, description="Partitions of a topic that this sink creates.")
    replication_factor: int | None = Field(
        None, ge=1, le=15, description=f"Copies of a topic that this sink creates. {COPIES_DEFAULT}"
    )
    topic_config: dict[str, str] = Field(
        default_factory=dict, description="Settings of a topic that this sink creates, as Kafka names them."
    )
    compression: Compression = Field(Compression.LZ4, description="Of the events.")
    batch_bytes: Size = Field(
        size("512KiB"), ge=1024, le=16 * 2**20, description="Sent to a partition at once; no topic may allow less."
    )
    delivery: DeliveryGuarantee = Field(
        DeliveryGuarantee.EXACTLY_ONCE,
        description="`exactly_once` by Kafka transactions; `at_least_once` for brokers that have none.",
    )
    transaction_topic: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9._-]{3,249}$",
        description="Topic for a BEGIN and a COMMIT of every transaction with rows, with counts. Default: none.",
    )
    headers: bool = Field(
        False,
        description="Operation, schema, table and position of an event as headers too, and `traceparent` where its "
        "transaction is sampled (`tracing`). Costs speed.",
    )
    tombstones: bool = Field(
        False,
        description="A record without a value behind each delete, and for the old key behind an update that gives a "
        "row another one, so that compaction forgets the key.",
    )
    cloudevents_mode: CloudEventsMode = Field(
        CloudEventsMode.STRUCTURED,
        description="Of `envelope: cloudevents`: the whole event as the value, or `binary`: its data as the value and "
        "its attributes as headers. Both have a `content-type` header, so each event is sent by itself.",
    )

    @field_validator("cloudevents_mode")
    @classmethod
    def _is_of_cloudevents(cls, mode: CloudEventsMode, info: ValidationInfo) -> CloudEventsMode:
        if mode is CloudEventsMode.BINARY and info.data.get("envelope") is not EventEnvelope.CLOUDEVENTS:
            raise refuse(
                code="CLOUDEVENTS_MODE_UNUSED",
                reason="only CloudEvents have a binary mode",
                remedy="Set envelope: cloudevents, or remove cloudevents_mode.",
            )
        return mode

    @field_validator("transaction_topic")
    @classmethod
    def _commits_are_seen_with_their_changes(cls, topic: str | None, info: ValidationInfo) -> str | None:
        if topic is not None and info.data.get("delivery") is not DeliveryGuarantee.EXACTLY_ONCE:
            raise refuse(
                code="TRANSACTION_TOPIC_UNSURE",
                reason="without Kafka transactions a COMMIT may be seen before the changes it is about",
                remedy="Set delivery: exactly_once, or remove transaction_topic.",
            )
        return topic
