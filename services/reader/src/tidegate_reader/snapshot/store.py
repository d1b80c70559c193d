"""The compacted topic where progress is kept: read whole once, when a reader starts, then only written.

Invariant: a record is written after what it claims is durable, by the epoch's own producer, and `write` returns when it
is durable itself. The newest record of a key counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from tidegate.contracts.names import snapshots_topic
from tidegate.kafka_client import client_options
from tidegate.observability import logs
from tidegate_reader.publisher import epoch_over
from tidegate_reader.raw_topic import unavailable
from tidegate_reader.schema_topic import READ_SECONDS, WRITE_SECONDS, ensure_compacted
from tidegate_reader.snapshot.records import (
    SnapshotRecord,
    TableRecord,
    decode_snapshot_record,
    decode_table_record,
    snapshot_key,
    table_key,
)
from tidegate_reader.snapshot.refusals import forgotten

if TYPE_CHECKING:
    from tidegate.config.pipeline import PipelineConfig


@dataclass(slots=True)
class Kept:
    """What was durable when the reader started, of its own generation."""

    snapshots: dict[str, SnapshotRecord] = field(default_factory=dict)
    tables: dict[str, dict[int, TableRecord]] = field(default_factory=dict)
    """By snapshot and relation."""
    is_new: bool = False
    """The topic was not there."""


class Store:
    def __init__(self, producer: Any, pipeline: str, generation: str) -> None:  # aiokafka is not typed
        self._producer, self._topic, self._generation = producer, snapshots_topic(pipeline), generation

    async def write(self, *records: SnapshotRecord | TableRecord) -> None:
        await self._send({self._key(record): record.encode() for record in records})

    async def forget(self, snapshot: str, tables: Mapping[int, TableRecord]) -> None:
        """Progress of tables whose snapshot is over."""
        await self._send({table_key(self._generation, snapshot, relation_id): None for relation_id in tables})

    def _key(self, record: SnapshotRecord | TableRecord) -> bytes:
        if isinstance(record, SnapshotRecord):
            return snapshot_key(self._generation, record.id)
        return table_key(self._generation, record.snapshot, record.relation_id)

    async def _send(self, values: Mapping[bytes, bytes | None]) -> None:
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                sent = [
                    await self._producer.send(self._topic, value, key=key, partition=0) for key, value in values.items()
                ]
                await asyncio.gather(*sent)
        except KafkaError as error:
            raise epoch_over(type(error).__name__) from error
        except TimeoutError:
            raise epoch_over("the snapshots topic took no record in time") from None


async def read_kept(config: PipelineConfig, generation: str) -> Kept:
    topic = snapshots_topic(config.pipeline)
    consumer = AIOKafkaConsumer(**client_options(config.kafka), enable_auto_commit=False, auto_offset_reset="none")
    try:
        async with asyncio.timeout(READ_SECONDS):
            is_new = await ensure_compacted(config, topic)
            await consumer.start()
            return replace(kept(await _read(consumer, TopicPartition(topic, 0)), generation), is_new=is_new)
    except KafkaError as error:
        raise unavailable(error) from error
    except TimeoutError:
        raise unavailable(None) from None
    finally:
        await consumer.stop()


def tell_if_lost(found: Kept, *, has_past: bool) -> None:
    """That no loss follows from it is in decision 70."""
    if found.is_new and has_past:
        error = forgotten()
        logs.get("reader").warning("snapshots_topic_lost", code=error.code, cause=error.message, remedy=error.remedy)


def kept(records: Mapping[bytes, bytes], generation: str) -> Kept:
    """One that can't be read is refused: taken as missing, it would begin a snapshot anew."""
    found = Kept()
    for key, value in records.items():
        owner, _, rest = key.decode(errors="replace").partition(":")
        if owner != generation:
            continue
        if ":" in rest:
            table = decode_table_record(value)
            found.tables.setdefault(table.snapshot, {})[table.relation_id] = table
        else:
            snapshot = decode_snapshot_record(value)
            found.snapshots[snapshot.id] = snapshot
    return found


async def _read(consumer: Any, partition: TopicPartition) -> dict[bytes, bytes]:
    consumer.assign([partition])
    end = (await consumer.end_offsets([partition]))[partition]
    consumer.seek(partition, (await consumer.beginning_offsets([partition]))[partition])
    records: dict[bytes, bytes] = {}
    while await consumer.position(partition) < end:
        for each in (await consumer.getmany(partition, timeout_ms=1000)).get(partition, ()):
            if each.value is None:
                records.pop(each.key, None)
            else:
                records[each.key] = each.value
    return records
