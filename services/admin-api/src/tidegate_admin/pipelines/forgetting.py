"""Has a pipeline begin anew whose slot is gone for good: what it remembers is deleted, and its next start is a first.

    all is delivered → nobody runs → no slot → its topics → its keys, the lineage last

Invariant: as long as the raw topic or the lineage is there, a reader refuses to begin anew. So one that was cut off has
begun nothing, and is asked for again; it ends the same. What stays: dead letters, sinks' topics, the list of changes.
The brokers forget cursors that lanes keep there together with the raw topic.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import redis
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError, for_code

from tidegate.checkpoint.redis_store import read_acks
from tidegate.clock import unix_microseconds
from tidegate.config.pipeline import PipelineConfig
from tidegate.contracts import names
from tidegate.contracts.frame import decode_header
from tidegate.errors import ConfigError, DecodeError
from tidegate.kafka_client import TopicMetadata, client_options
from tidegate_admin.access import PipelineAccess
from tidegate_admin.errors import ApiError
from tidegate_admin.frames.raw import unavailable
from tidegate_admin.once import answers_key
from tidegate_admin.pipelines.observation import StatusReader
from tidegate_admin.pipelines.schemas import ForgetPipeline, PipelineForgotten
from tidegate_admin.slots.listing import find_slot
from tidegate_admin.store import answered, store_unavailable

KAFKA_SECONDS = 20.0
_LOOK_SECONDS = 0.1
_KEYS_AT_ONCE = 500


async def forget(of: PipelineAccess, wanted: ForgetPipeline) -> PipelineForgotten:
    name = of.config.pipeline
    if wanted.confirm != name:
        raise ApiError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "confirm is not the pipeline's name",
            code="CONFIRM_MISMATCH",
            remedy="Type the pipeline's name into confirm, exactly.",
        )
    async with _brokers(of.config) as admin:
        topics = [topic for topic in _topics(of.config) if await _is_there(admin, topic)]
        if of.config.raw_topic.name in topics and not wanted.accept_loss:
            await _check_delivered(of)
        await _check_nobody_runs(of.config)
        await _check_no_slot(of)
        await of.leave_raw_topic()
        await _delete_topics(admin, topics)
    return PipelineForgotten(name=name, topics=topics, keys=await _delete_keys(of))


def _topics(config: PipelineConfig) -> tuple[str, ...]:
    """What is of one generation. Dead letters are of any."""
    made = (names.scratch_topic, names.schemas_topic, names.snapshots_topic)
    return (config.raw_topic.name, *(topic(config.pipeline) for topic in made))


async def _check_delivered(of: PipelineAccess) -> None:
    """By the raw topic's last frame: a reader that failed at its start has said nothing of what one before it wrote."""
    bounds = await of.raw.bounds()
    if bounds.beginning == bounds.end:
        return
    last = await of.raw.read(bounds.end - 1, 1)
    acked = await _acked(of, last[0].value) if last else frozenset()
    behind = [each.name for each in of.config.sinks if each.name not in acked]
    if behind:
        raise _refused(
            "FORGET_LOSES",
            f"the raw topic holds what is not known to be delivered by {', '.join(behind)}",
            "Have the processor run until its lanes have it. To lose what they lack on purpose, say accept_loss.",
        )


async def _acked(of: PipelineAccess, frame: bytes) -> frozenset[str]:
    """The sinks that have everything up to this frame and itself; none where it does not tell."""
    try:
        header = decode_header(frame)
    except DecodeError:
        return frozenset()
    acks = await read_acks(of.redis, of.config.pipeline, header.generation.id)
    return frozenset(sink for sink, ack in acks.items() if ack.safe_lsn >= header.safe_lsn)


async def _check_nobody_runs(config: PipelineConfig) -> None:
    """By what they say of themselves: a reader holds the slot besides, and whoever runs says so every second."""
    reader = StatusReader(config)
    try:
        statuses = await reader.read()
    finally:
        await reader.close()
    told = {"the reader": statuses.reader} | {f"the lane {name}": lane for name, lane in statuses.lanes.items()}
    now = unix_microseconds()
    running = [who for who, status in told.items() if status is not None and not status.is_stale(now)]
    if running:
        raise _refused(
            "PIPELINE_RUNNING",
            f"a moment ago there still was {', '.join(running)}",
            "Stop the reader and the processor, and ask again five seconds later.",
        )


async def _check_no_slot(of: PipelineAccess) -> None:
    async with of.sessions.reading() as session:
        slot = await find_slot(session, (), of.config, of.config.source.slot.name)
    if slot is not None:
        raise _refused(
            "SLOT_THERE",
            f"the source still has the slot {slot.name}",
            "If it is whole, start the reader: it goes on. If it is lost, drop it first.",
        )


@asynccontextmanager
async def _brokers(config: PipelineConfig) -> AsyncIterator[Any]:  # aiokafka is not typed
    try:
        async with asyncio.timeout(KAFKA_SECONDS):
            admin = AIOKafkaAdminClient(**client_options(config.kafka))
            try:
                await admin.start()
                yield admin
            finally:
                await admin.close()
    except (KafkaError, OSError, TimeoutError, ConfigError) as error:
        raise unavailable(error) from error


async def _is_there(admin: Any, topic: str) -> bool:
    # The admin client has no public way to send a request it does not know, and its own would make the topic.
    described = (await admin._send_request(TopicMetadata(topic))).to_object()["topics"][0]
    error = for_code(described["error_code"])
    if described["error_code"] and error is not UnknownTopicOrPartitionError:
        raise _not_deleted(topic, error)
    return not described["error_code"]


async def _delete_topics(admin: Any, topics: Sequence[str]) -> None:
    """They are gone when it returns: a reader that starts must not find one that is about to be deleted."""
    if not topics:
        return
    answer = (await admin.delete_topics(list(topics))).to_object()
    for each in answer["topic_error_codes"]:
        error = for_code(each["error_code"])
        if each["error_code"] and error is not UnknownTopicOrPartitionError:
            raise _not_deleted(each["topic"], error)
    for topic in topics:
        while await _is_there(admin, topic):  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_SECONDS)  # Kafka tells nobody when; the caller's timeout ends it.


async def _delete_keys(of: PipelineAccess) -> int:
    """But those that tell what was done here."""
    pipeline = of.config.pipeline
    kept, lineage = (names.audit_key(pipeline), answers_key(pipeline)), names.lineage_key(pipeline).encode()
    try:
        asked = of.redis.scan_iter(match=names.every_key(pipeline), count=1000)
        found = {key async for key in asked if not key.decode(errors="replace").startswith(kept)}
        keys = sorted(found, key=lambda key: key == lineage)
        for at in range(0, len(keys), _KEYS_AT_ONCE):
            await answered(of.redis.unlink(*keys[at : at + _KEYS_AT_ONCE]))
    except (redis.RedisError, OSError, ConfigError) as error:
        raise store_unavailable(error) from error
    return len(keys)


def _not_deleted(topic: str, error: Any) -> Exception:
    if error.retriable:
        found: Exception = error()
        return found
    return _refused(
        "TOPIC_NOT_DELETED",
        f"Kafka does not let us delete {topic}: {error.__name__}",
        "Let the admin service's user describe and delete the pipeline's topics (security.md); then ask again.",
    )


def _refused(code: str, message: str, remedy: str) -> ApiError:
    return ApiError(HTTPStatus.CONFLICT, message, code=code, remedy=remedy)
