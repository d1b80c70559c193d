"""How every aiokafka client of ours reaches the brokers, and the one thing that aiokafka does not ask: a topic's id.

A topic that is deleted and made again under the same name has another id; an offset counts only with it. Metadata of
version 10 tells it, and never makes a topic by being asked.
"""

from __future__ import annotations

import ssl
import uuid
from io import BytesIO
from typing import TYPE_CHECKING, Any, ClassVar

from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

if TYPE_CHECKING:
    from tidegate.config.kafka import KafkaConfig, RawTopic


BATCH_OVERHEAD_BYTES = 4096
"""Record batch header, record headers and a tick beside the largest frame."""
_FULL_BATCH_BYTES = 2**19
"""aiokafka has one batch of a partition under way at a time, so frames that wait share one. It is copied some
times on its way to the socket: batches of 1 MB cost the reader 1 MB more and made no snapshot faster, batches of
256 KiB a seventh more CPU. Below the brokers' default max.message.bytes (1,048,588)."""


def largest_batch(raw_topic: RawTopic) -> int:
    """In bytes: the largest record batch that is sent to the raw topic."""
    return max(_FULL_BATCH_BYTES, largest_frame(raw_topic.max_frame) + BATCH_OVERHEAD_BYTES)


def largest_frame(max_frame: int) -> int:
    """Where many tables need it: up to twice what is configured, as far as a batch has room for it."""
    return max(max_frame, min(2 * max_frame, _FULL_BATCH_BYTES - BATCH_OVERHEAD_BYTES))


def client_options(kafka: KafkaConfig) -> dict[str, Any]:
    """Passwords and certificates are read anew at each call, so that rotated ones are seen."""
    security = kafka.security
    options: dict[str, Any] = {
        "bootstrap_servers": kafka.bootstrap,
        "security_protocol": security.protocol.value,
        "request_timeout_ms": 10_000,
    }
    if security.protocol.has_tls:
        context = ssl.create_default_context(cafile=security.ca)
        if security.cert:
            context.load_cert_chain(security.cert, security.key)
        options["ssl_context"] = context
    if security.mechanism and security.password:
        options |= {
            "sasl_mechanism": security.mechanism.value,
            "sasl_plain_username": security.username,
            "sasl_plain_password": security.password.reveal(),
        }
    return options


class _Uuid(AbstractType[uuid.UUID]):  # type: ignore[misc] # aiokafka is not typed
    @classmethod
    def encode(cls, value: uuid.UUID) -> bytes:
        return value.bytes

    @classmethod
    def decode(cls, data: BytesIO) -> uuid.UUID:
        return uuid.UUID(bytes=data.read(16))


_TEXT = CompactString("utf-8")

_BROKER = (("node_id", Int32), ("host", _TEXT), ("port", Int32), ("rack", _TEXT), ("tags", TaggedFields))
_PARTITION = (
    ("error_code", Int16),
    ("partition", Int32),
    ("leader", Int32),
    ("leader_epoch", Int32),
    ("replicas", CompactArray(Int32)),
    ("isr", CompactArray(Int32)),
    ("offline_replicas", CompactArray(Int32)),
    ("tags", TaggedFields),
)
_TOPIC = (
    ("error_code", Int16),
    ("name", _TEXT),
    ("topic_id", _Uuid),
    ("is_internal", Boolean),
    ("partitions", CompactArray(*_PARTITION)),
    ("authorized_operations", Int32),
    ("tags", TaggedFields),
)


class MetadataResponseV10(Response):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = 10
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", CompactArray(*_BROKER)),
        ("cluster_id", _TEXT),
        ("controller_id", Int32),
        ("topics", CompactArray(*_TOPIC)),
        ("authorized_operations", Int32),
        ("tags", TaggedFields),
    )


class MetadataRequestV10(RequestStruct):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = 10
    FLEXIBLE_VERSION: ClassVar[bool] = True
    RESPONSE_TYPE = MetadataResponseV10
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", _Uuid), ("name", _TEXT), ("tags", TaggedFields))),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class TopicMetadata(Request[MetadataRequestV10]):  # type: ignore[misc]
    API_KEY = 3

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def build(self, request_struct_class: type[MetadataRequestV10]) -> MetadataRequestV10:
        return request_struct_class([(uuid.UUID(int=0), self._topic, {})], False, False, False, {})
