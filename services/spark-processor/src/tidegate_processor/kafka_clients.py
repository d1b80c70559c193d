"""Kafka's clients, set up in one way for librdkafka and for Spark's own consumer; and a look at the raw topic."""

import logging
import os
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.error import KafkaError

from tidegate.config.kafka import KafkaConfig, Mechanism
from tidegate.contracts.cursor import Cursor, decode_cursor
from tidegate.errors import TransientError

_CALL_SECONDS = 10.0
_COORDINATOR_SECONDS = 10.0
_RETRY_SECONDS = 0.1
_HALF = 2**64 - 1
_JAVAS_KEY = "-----BEGIN PRIVATE KEY-----"
# The client's own flag for them is set by its transaction calls only.
_COORDINATOR_COMES = frozenset(
    (
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError._WAIT_COORD,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
    )
)

_LOG = logging.getLogger("tidegate.kafka.client")

_Client = TypeVar("_Client")


def librdkafka_settings(config: KafkaConfig) -> dict[str, Any]:
    security = config.security
    settings: dict[str, Any] = {"bootstrap.servers": config.bootstrap, "security.protocol": security.protocol.lower()}
    if security.protocol.has_sasl:
        settings |= {
            "sasl.mechanism": security.mechanism,
            "sasl.username": security.username,
            "sasl.password": security.password.reveal() if security.password else None,
        }
    files = {
        "ssl.ca.location": security.ca,
        "ssl.certificate.location": security.cert,
        "ssl.key.location": security.key,
    }
    return settings | {name: path for name, path in files.items() if path}


def client(kind: Callable[..., _Client], settings: Mapping[str, Any]) -> _Client:
    """A `Producer`, a `Consumer` or an `AdminClient`. The configuration was checked, so what keeps it from being made
    is around it: a file that is being renewed, or no descriptors left."""
    try:
        return kind(dict(settings), logger=_LOG)
    except KafkaException as error:
        files = [path for name, path in settings.items() if name.endswith(".location")]
        unreadable = ", ".join(path for path in files if not os.access(path, os.R_OK))
        raise _not_made(f"can not read {unreadable}" if unreadable else error.args[0].name()) from error


def _not_made(why: str) -> TransientError:
    return TransientError(
        f"Kafka's client was not made: {why}",
        code="KAFKA_CLIENT_NOT_MADE",
        remedy="Check the certificates and the key that kafka.security names, and the client's log; it is tried again.",
    )


def spark_options(config: KafkaConfig) -> dict[str, str]:
    security = config.security
    options = {"kafka.bootstrap.servers": config.bootstrap, "kafka.security.protocol": str(security.protocol)}
    if security.protocol.has_sasl:
        options["kafka.sasl.mechanism"] = str(security.mechanism)
        options["kafka.sasl.jaas.config"] = _jaas(config)
    if security.ca:
        options |= {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": security.ca}
    if security.cert and security.key:
        # As text: Java wants both in one file, which would have to be written somewhere.
        options |= {
            "kafka.ssl.keystore.type": "PEM",
            "kafka.ssl.keystore.certificate.chain": _text(security.cert),
            "kafka.ssl.keystore.key": _private_key(security.key),
        }
    return options


def _private_key(path: str) -> str:
    text = _text(path)
    if _JAVAS_KEY not in text:
        raise TransientError(
            f"{path} is not a private key as Spark's own client takes it",
            code="KAFKA_KEY_FORMAT",
            remedy="It has to be PKCS#8 and not encrypted: openssl pkcs8 -topk8 -nocrypt -in KEY -out NEW. The lane "
            "comes again by itself.",
        )
    return text


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise _not_made(f"can not read {path}") from error


@dataclass(frozen=True, slots=True)
class RawTopicView:
    """The raw topic as it is now. An offset counts only with the id: a topic that was made again has another one."""

    id: str
    beginning: int
    end: int


def look_at(config: KafkaConfig, topic: str) -> RawTopicView:
    settings = librdkafka_settings(config)
    admin = client(AdminClient, settings)
    consumer = client(Consumer, settings | {"group.id": "tidegate-look", "enable.auto.commit": False})
    try:
        described = admin.describe_topics(TopicCollection([topic]), request_timeout=_CALL_SECONDS)[topic].result()
        beginning, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=_CALL_SECONDS)
    except KafkaException as error:
        raise TransientError(
            f"Kafka did not describe the raw topic: {error.args[0].name()}",
            code="RAW_TOPIC_UNKNOWN",
            remedy="Check the brokers and the user's right to describe the topic; the lane starts again.",
        ) from error
    finally:
        consumer.close()
    halves = described.topic_id.get_most_significant_bits(), described.topic_id.get_least_significant_bits()
    return RawTopicView(str(uuid.UUID(int=(halves[0] & _HALF) << 64 | halves[1] & _HALF)), beginning, end)


def read_cursor(consumer: Consumer, topic: str) -> Cursor | None:
    """The lane's own, from its consumer group. A coordinator that is still being found or elected is waited for."""
    deadline = time.monotonic() + _COORDINATOR_SECONDS
    while True:
        try:
            (committed,) = consumer.committed([TopicPartition(topic, 0)], timeout=_CALL_SECONDS)
            error = committed.error
        except KafkaException as raised:
            error = raised.args[0]
        if error is None:
            return decode_cursor(committed.metadata) if committed.metadata else None
        if error.code() not in _COORDINATOR_COMES or time.monotonic() > deadline:
            raise TransientError(
                f"Kafka did not give the lane's cursor: {error.name()}",
                code="CURSOR_UNAVAILABLE",
                remedy="Check the brokers and the user's right to the consumer group; the lane starts again.",
            )
        consumer.poll(_RETRY_SECONDS)


def _jaas(config: KafkaConfig) -> str:
    security = config.security
    module = "plain.PlainLoginModule" if security.mechanism is Mechanism.PLAIN else "scram.ScramLoginModule"
    password = security.password.reveal() if security.password else ""
    quoted = [value.replace("\\", "\\\\").replace('"', '\\"') for value in (security.username or "", password)]
    return f'org.apache.kafka.common.security.{module} required username="{quoted[0]}" password="{quoted[1]}";'
