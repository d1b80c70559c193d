"""Metadata of version 10, for the one thing aiokafka does not ask: the topic's own id.

A topic that is deleted and made again under the same name has another id; an offset counts only with it.
"""

import uuid
from io import BytesIO
from typing import ClassVar

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
