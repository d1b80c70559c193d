"""The compacted topic of the last shapes: what a new session compares the server's descriptions with.

A DDL while the reader is away is seen only by that comparison: the server describes every relation anew to a session.
Invariant: a shape is in this topic before the first frame that needs it is sent, so a change of shape that the raw
topic holds is never taken for a new one, and one that it does not hold is ignored (it stands above the tail).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from tidegate.clock import BROKERS_TIME
from tidegate.contracts.names import schemas_topic
from tidegate.contracts.shape import ShapeRecord, decode_shape_record
from tidegate.errors import ConfigError, DecodeError
from tidegate.kafka_client import client_options
from tidegate.position import Position
from tidegate_reader.publisher import epoch_over
from tidegate_reader.raw_topic import described, new_topic, unavailable
from tidegate_reader.shapes import NewShape, Shape, known_shape

if TYPE_CHECKING:
    from tidegate.config.pipeline import PipelineConfig

READ_SECONDS = 30.0
WRITE_SECONDS = 30.0
_SETTINGS = {
    "cleanup.policy": "compact",
    "min.compaction.lag.ms": "0",
    "segment.bytes": str(16 * 2**20),
    **BROKERS_TIME,
}


class SchemaTopic:
    def __init__(self, producer: Any, pipeline: str, generation: str) -> None:  # aiokafka is not typed
        self._producer, self._topic, self._generation = producer, schemas_topic(pipeline), generation

    async def write(self, shapes: Sequence[NewShape]) -> None:
        """Durable when it returns."""
        records = [shape.record(self._generation) for shape in shapes]
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                sent = [
                    await self._producer.send(self._topic, record.encode(), key=record.key, partition=0)
                    for record in records
                ]
                await asyncio.gather(*sent)
        except KafkaError as error:
            raise epoch_over(type(error).__name__) from error
        except TimeoutError:
            raise epoch_over("the schemas topic took no record in time") from None


async def read_shapes(config: PipelineConfig, generation: str, position: Position) -> dict[int, Shape]:
    """The shapes in force at the position where the stream goes on."""
    topic = schemas_topic(config.pipeline)
    consumer = AIOKafkaConsumer(**client_options(config.kafka), enable_auto_commit=False, auto_offset_reset="none")
    try:
        async with asyncio.timeout(READ_SECONDS):
            await ensure_compacted(config, topic)
            await consumer.start()
            records = await _read(consumer, TopicPartition(topic, 0))
    except KafkaError as error:
        raise unavailable(error) from error
    except TimeoutError:
        raise unavailable(None) from None
    finally:
        await consumer.stop()
    return shapes_at(records, generation, position)


def shapes_at(records: Sequence[ShapeRecord], generation: str, position: Position) -> dict[int, Shape]:
    newest = {record.relation_id: record for record in records if record.generation == generation}
    forms = {relation_id: record.at(position) for relation_id, record in newest.items()}
    return {relation_id: known_shape(form) for relation_id, form in forms.items() if form is not None}


async def ensure_compacted(config: PipelineConfig, topic: str) -> bool:
    """Whether it was made now."""
    admin = AIOKafkaAdminClient(**client_options(config.kafka))
    try:
        await admin.start()
        if await described(admin, topic) is not None:  # brokers ask for the right to create one first
            return False
        wanted = new_topic(topic, config.raw_topic.replication_factor, _SETTINGS)
        code = (await admin.create_topics([wanted])).to_object()["topic_errors"][0]["error_code"]
    finally:
        await admin.close()
    if code and for_code(code) is not TopicAlreadyExistsError:
        raise ConfigError(
            f"Kafka refused to create the topic {topic}: {for_code(code).__name__}",
            code="SCHEMAS_TOPIC_CREATE",
            remedy="Check raw_topic.replication_factor and the user's rights, or make it: compacted, one partition.",
        )
    return not code


async def _read(consumer: Any, partition: TopicPartition) -> list[ShapeRecord]:
    consumer.assign([partition])
    end = (await consumer.end_offsets([partition]))[partition]
    consumer.seek(partition, (await consumer.beginning_offsets([partition]))[partition])
    records: list[ShapeRecord] = []
    while await consumer.position(partition) < end:
        for each in (await consumer.getmany(partition, timeout_ms=1000)).get(partition, ()):
            record = _decoded(each.value)
            records += [record] if record is not None else []
    return records


def _decoded(value: bytes | None) -> ShapeRecord | None:
    """What is not to be read is as if it were not there: at worst a change of shape goes unmarked, as without it."""
    try:
        return None if value is None else decode_shape_record(value)
    except DecodeError:
        return None
