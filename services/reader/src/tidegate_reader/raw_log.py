"""Reads the end and the beginning of the raw topic, once, when a reader starts.

Invariant: what is read reaches to the end as the broker gave it before the first record was asked for. An epoch frame
that was written for another topic or another place is void here as it is for lanes: its writer had looked before the
topic was made again or lost, and wrote nothing behind it. Only generation and number are believed of it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from tidegate.contracts.epoch import EpochMode, EpochRecord, decode_epoch
from tidegate.contracts.frame import FrameHeader, FrameKind, body_messages, decode_frame, decode_header
from tidegate.contracts.gap import Gap
from tidegate.errors import DecodeError, StreamError, TransientError
from tidegate.kafka_client import client_options
from tidegate.lsn import ZERO, Lsn
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.messages import Begin
from tidegate_reader.history import Told
from tidegate_reader.raw_topic import unavailable
from tidegate_reader.tail import Tail, find_tail, reach_of, valid_tails

if TYPE_CHECKING:
    from tidegate.config.kafka import KafkaConfig

READ_SECONDS = 30.0
WINDOW = 256
"""Records from the end. A writer that was fenced has at most 64 frames under way, so this sees past several of them."""


@dataclass(frozen=True, slots=True)
class RawLog:
    """The raw topic as a starting reader finds it."""

    beginning: int
    end: int
    """The offset that the next record gets."""
    first: FrameHeader | None
    tail: Tail | None
    told: Told | None = None
    """Of the server's history; none where there is no tail."""
    foreign: FrameHeader | None = None
    """The newest epoch frame that was written for another topic or place."""

    @property
    def newest(self) -> Tail | FrameHeader | None:
        """What knows the generation."""
        return self.tail or self.foreign

    @property
    def gap(self) -> Gap | None:
        """Announced in a frame that is still there, so that a lane whose place is gone can come in by it."""
        gap = self.told.gap if self.told is not None else None
        return gap if gap is not None and self.beginning <= gap.offset else None


async def read_raw_log(kafka: KafkaConfig, topic: str, topic_id: str) -> RawLog:
    consumer = AIOKafkaConsumer(
        **client_options(kafka), enable_auto_commit=False, max_partition_fetch_bytes=2**20, auto_offset_reset="none"
    )
    partition = TopicPartition(topic, 0)
    try:
        async with asyncio.timeout(READ_SECONDS):
            await consumer.start()
            consumer.assign([partition])
            return await _read(consumer, partition, topic_id)
    except KafkaError as error:
        raise unavailable(error) from error
    except TimeoutError:
        raise TransientError(
            "the end of the raw topic could not be read in time",
            code="RAW_TOPIC_UNREADABLE",
            remedy="Check the brokers; the reader tries again.",
        ) from None
    finally:
        await consumer.stop()


async def _read(consumer: Any, partition: TopicPartition, topic_id: str) -> RawLog:  # aiokafka is not typed
    beginning = (await consumer.beginning_offsets([partition]))[partition]
    end = (await consumer.end_offsets([partition]))[partition]
    if beginning == end:
        return RawLog(beginning, end, None, None)
    start = max(beginning, end - WINDOW)
    seen = await _seen(consumer, partition, start, end, topic_id)
    headers = [(each.offset, each.header) for each in seen if not each.is_foreign]
    first = headers[0][1] if headers else None
    if start > beginning:
        first = await _first(consumer, partition, beginning, start, topic_id) or first
    foreign = max((each.header for each in seen if each.is_foreign), key=lambda header: header.epoch, default=None)
    tail = find_tail(headers, window_start=start)
    told = None
    if tail is not None:
        valid = [each for each in valid_tails(headers, window_start=start) if each is not None]
        ours = [each for each in valid if each.generation == tail.generation]
        furthest = max(ours, key=lambda each: (each.reach, each.number))
        told = await _told(consumer, partition, tail, furthest, headers, beginning)
    return RawLog(beginning, end, first, tail, told, foreign)


@dataclass(frozen=True, slots=True)
class _Seen:
    offset: int
    header: FrameHeader
    is_foreign: bool


async def _seen(consumer: Any, partition: TopicPartition, start: int, end: int, topic_id: str) -> list[_Seen]:
    consumer.seek(partition, start)
    seen: list[_Seen] = []
    while not seen or seen[-1].offset < end - 1:
        records = (await consumer.getmany(partition, timeout_ms=1000, max_records=WINDOW)).get(partition, ())
        seen += [_judged(each.offset, each.value, topic_id) for each in records if each.offset < end]
    return seen


def _judged(offset: int, value: bytes, topic_id: str) -> _Seen:
    header = decode_header(value)
    is_epoch = header.kind is FrameKind.EPOCH
    return _Seen(offset, header, is_epoch and not decode_epoch(decode_frame(value).body).is_of(topic_id, offset))


async def _first(
    consumer: Any, partition: TopicPartition, beginning: int, stop: int, topic_id: str
) -> FrameHeader | None:
    for offset in range(beginning, stop):
        [seen] = await _seen(consumer, partition, offset, offset + 1, topic_id)
        if not seen.is_foreign:
            return seen.header
    return None


async def _record(consumer: Any, partition: TopicPartition, offset: int) -> bytes:
    consumer.seek(partition, offset)
    while True:
        for record in (await consumer.getmany(partition, timeout_ms=1000, max_records=1)).get(partition, ()):
            return bytes(record.value)


async def _told(
    consumer: Any,
    partition: TopicPartition,
    tail: Tail,
    furthest: Tail,
    headers: list[tuple[int, FrameHeader]],
    beginning: int,
) -> Told:
    newest = await _epoch(consumer, partition, tail, beginning)
    if newest is not None and reach_of(newest.tail, ZERO) > furthest.reach:
        told = _told_by(newest)
    else:
        asked = newest if furthest.number == tail.number else await _epoch(consumer, partition, furthest, beginning)
        told = _told_at(furthest, asked)
    transaction = await _last_transaction(consumer, partition, told.commit_lsn, headers)
    branch, gap = (newest.branch, _gap(newest, tail)) if newest else (None, None)
    return replace(told, transaction=transaction, branch=branch, gap=gap)


def _gap(newest: EpochRecord, tail: Tail) -> Gap | None:
    """An epoch frame knows only where it was to land."""
    is_here = newest.gap is not None and newest.mode is EpochMode.RESNAPSHOT
    return replace(newest.gap, offset=tail.epoch_offset) if newest.gap and is_here else newest.gap


def _told_at(furthest: Tail, asked: EpochRecord | None) -> Told:
    commit_lsn, ordinal = furthest.position
    options, since = (asked.options, asked.options_since) if asked else (None, ZERO)
    return Told(
        commit_lsn,
        furthest.safe_lsn,
        None,
        options,
        since,
        reached=furthest.reach,
        epoch=furthest.number,
        ordinal=ordinal,
    )


def _told_by(newest: EpochRecord) -> Told:
    """A re-feed that has not come as far as the raw topic had, and what stands before it is beyond the window."""
    (commit_lsn, ordinal), reach = newest.tail, reach_of(newest.tail, ZERO)
    return Told(commit_lsn, reach, None, newest.options, newest.options_since, reached=reach, ordinal=ordinal)


async def _epoch(consumer: Any, partition: TopicPartition, tail: Tail, beginning: int) -> EpochRecord | None:
    """What its epoch frame says, if retention has left it."""
    if tail.epoch_offset < beginning:
        return None
    frame = decode_frame(await _record(consumer, partition, tail.epoch_offset))
    _check_epoch_frame(frame.header, tail)
    return decode_epoch(frame.body)


async def _last_transaction(
    consumer: Any, partition: TopicPartition, commit_lsn: Lsn, headers: list[tuple[int, FrameHeader]]
) -> tuple[int, int] | None:
    """Xid and commit time, from a frame that began inside it, or from its BEGIN."""
    for offset, header in reversed(headers):
        if header.kind is not FrameKind.WAL or not header.messages or header.last.commit_lsn != commit_lsn:
            continue
        opened = header.open_transaction
        if opened is not None and opened.commit_lsn == commit_lsn:
            return opened.xid, opened.commit_time
        return _begun(await _record(consumer, partition, offset), commit_lsn)
    return None


def _begun(value: bytes, commit_lsn: Lsn) -> tuple[int, int] | None:
    try:
        for _, message in body_messages(decode_frame(value)):
            begin = decode_message(message) if message[:1] == b"B" else None
            if isinstance(begin, Begin) and begin.commit_lsn == commit_lsn:
                return begin.xid, begin.commit_time
    except DecodeError:
        return None  # a part of a message: only its first one has the BEGIN, and ends within what follows
    return None


def _check_epoch_frame(header: FrameHeader, tail: Tail) -> None:
    """The newest epoch is only believed if the frame it points to says so too."""
    if (header.epoch, header.epoch_nonce) != (tail.number, tail.nonce):
        raise StreamError(
            "the raw topic's newest frames point to an epoch frame that is not theirs",
            code="RAW_TOPIC_FOREIGN",
            remedy="Somebody else writes into the raw topic. Find the writer, then decide which log is right.",
        )
