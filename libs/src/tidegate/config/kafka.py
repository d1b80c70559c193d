"""The brokers between the services, and the raw topic that every change goes through."""

import re
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from tidegate.config.base import Duration, Model, Size, parse_address, size
from tidegate.config.problems import refuse
from tidegate.config.secret import Secret
from tidegate.config.values import Compression as Compression
from tidegate.config.values import Mechanism as Mechanism
from tidegate.config.values import Protocol as Protocol

# Kafka's own rule (org.apache.kafka.common.internals.Topic).
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)


def _topic_name(value: str) -> str:
    if value and (value in (".", "..") or not _TOPIC.fullmatch(value)):
        raise refuse(
            code="CONFIG_TOPIC",
            reason="not a name that Kafka takes for a topic",
            remedy="Use at most 249 letters, digits, dots, underscores and hyphens.",
        )
    return value


def _bootstrap(value: str) -> str:
    if "@" in value or "://" in value:
        raise refuse(
            code="CREDENTIALS_IN_URL",
            reason="brokers are listed as host:port, without scheme or credentials",
            remedy="Put user and password into kafka.security.",
        )
    return ",".join(str(parse_address(part.strip())) for part in value.split(","))


TopicName = Annotated[str, AfterValidator(_topic_name)]


class KafkaSecurity(Model):
    protocol: Protocol = Field(Protocol.PLAINTEXT, description="How clients reach the brokers.")
    mechanism: Mechanism | None = Field(None, description="SASL mechanism.")
    username: str | None = Field(None, min_length=1, description="SASL user.")
    password: Secret | None = Field(None, description="SASL password.")
    ca: str | None = Field(None, min_length=1, description="Certificates of the authorities to trust (PEM file).")
    cert: str | None = Field(None, min_length=1, description="Our certificate (PEM file), if the brokers ask for one.")
    key: str | None = Field(None, min_length=1, description="The private key of `cert` (PEM file, PKCS#8).")

    @field_validator("mechanism", "username", "password")
    @classmethod
    def _sasl_is_whole(cls, value: object, info: ValidationInfo) -> object:
        protocol = info.data.get("protocol")
        if protocol is not None and protocol.has_sasl != (value is not None):
            raise refuse(
                code="KAFKA_SASL",
                reason="mechanism, username and password go with SASL_PLAINTEXT and SASL_SSL, and only with them",
                remedy="Set protocol: SASL_SSL with all three, or remove them.",
            )
        return value

    @field_validator("ca", "cert", "key")
    @classmethod
    def _tls_is_on(cls, value: str | None, info: ValidationInfo) -> str | None:
        protocol = info.data.get("protocol")
        if value is not None and protocol is not None and not protocol.has_tls:
            raise refuse(
                code="KAFKA_TLS",
                reason="certificates are given, but the protocol is not encrypted",
                remedy="Set protocol: SSL or SASL_SSL.",
            )
        if info.field_name == "key" and "cert" in info.data and (value is None) != (info.data["cert"] is None):
            raise refuse(
                code="TLS_KEY_PAIR", reason="cert and key belong together", remedy="Give both of them or neither."
            )
        return value


COPIES_DEFAULT = "Default: as many as the brokers give a new topic (`default.replication.factor`)."


class KafkaConfig(Model):
    bootstrap: Annotated[str, AfterValidator(_bootstrap)] = Field(
        min_length=1, max_length=4096, description="Brokers, `host:port`, separated by commas."
    )
    security: KafkaSecurity = Field(KafkaSecurity(), description="Encryption and login.")


class RawTopic(Model):
    name: TopicName = Field("", description="Default: `tidegate.<pipeline>.raw`.")
    replication_factor: int | None = Field(None, ge=1, le=15, description=f"Copies. {COPIES_DEFAULT}")
    retention: Duration = Field(
        timedelta(days=7),
        ge=timedelta(hours=1),
        le=timedelta(days=3650),
        description="How long the log is kept: how far a sink may fall behind or be rewound.",
    )
    max_frame: Size = Field(
        size("256KiB"),
        ge=4096,
        le=16 * 2**20,
        description="A frame is closed when it reaches this size; one of many tables, at twice as much.",
    )
    linger: Duration = Field(
        timedelta(milliseconds=3), le=timedelta(seconds=10), description="How long a frame waits for more changes."
    )
    compression: Compression = Field(
        Compression.NONE, description="Of the frames. Compressing doubles the reader's CPU."
    )
    max_in_flight: Size = Field(
        size("16MiB"), ge=2**20, le=2**30, description="Bytes on their way to Kafka before the source is slowed down."
    )

    ack_timeout: Duration = Field(
        timedelta(seconds=30),
        ge=timedelta(seconds=1),
        le=timedelta(minutes=10),
        description="How long the brokers may take to acknowledge a frame, before the reader begins anew.",
    )

    @field_validator("max_in_flight")
    @classmethod
    def _room_for_two_frames(cls, value: int, info: ValidationInfo) -> int:
        if value < 2 * info.data.get("max_frame", 0):
            raise refuse(
                code="RAW_TOPIC_IN_FLIGHT",
                reason="there must be room for two frames",
                remedy="Raise max_in_flight to at least twice max_frame.",
            )
        return value
