"""Frames into the raw topic, in order, each acknowledged at exactly the offset behind the one before it.

publish → (room in flight) → send → settle: offset = last + 1 → on_durable

Invariant: the first produce that fails, whose outcome is unknown, or that lands elsewhere ends the epoch: nothing sent
after it is ever reported as durable. The next epoch reads what became of it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, KafkaTimeoutError

from tidegate.config.values import Compression
from tidegate.errors import TransientError
from tidegate.failpoints import Failpoint, reach
from tidegate.kafka_client import BATCH_OVERHEAD_BYTES, client_options, largest_batch
from tidegate_reader.frames import SealedFrame, SentFrame
from tidegate_reader.raw_topic import unavailable

if TYPE_CHECKING:
    from tidegate.config.kafka import KafkaConfig, RawTopic

MAX_FRAMES_IN_FLIGHT = 64
START_SECONDS = 30.0
CLOSE_SECONDS = 1.0
_PARTITION = 0


class Publisher:
    def __init__(
        self,
        producer: Any,  # aiokafka is not typed
        raw_topic: RawTopic,
        *,
        next_offset: int,
        on_durable: Callable[[SentFrame, int], None],
        on_flight: Callable[[int], None],
    ) -> None:
        self.in_flight_bytes = 0
        self.next_offset = next_offset
        """Offset that the next acknowledged frame must have."""
        self._producer = producer
        self._topic = raw_topic.name
        self._max_in_flight = raw_topic.max_in_flight
        self._ack_seconds = raw_topic.ack_timeout.total_seconds()
        self._on_durable, self._on_flight = on_durable, on_flight
        self._sent: deque[tuple[SentFrame, asyncio.Future[Any]]] = deque()
        self._something_sent = asyncio.Event()
        self._something_settled = asyncio.Event()

    @property
    def is_blocked(self) -> bool:
        return self.in_flight_bytes >= self._max_in_flight or len(self._sent) >= MAX_FRAMES_IN_FLIGHT

    async def publish(self, frames: Sequence[SealedFrame]) -> None:
        """Waits for room; while it waits, the source is not read."""
        for frame in frames:
            while self.is_blocked:
                self._something_settled.clear()
                await self._something_settled.wait()
            await self._send(frame)

    async def settle(self) -> None:
        """Runs for the life of the epoch: takes acknowledgements in order."""
        while True:
            while not self._sent:
                self._something_sent.clear()
                await self._something_sent.wait()
            frame, future = self._sent[0]
            self._settled(frame, await _outcome(future, self._ack_seconds))
            self._sent.popleft()
            self._fly(-frame.size)
            self._something_settled.set()
            reach(Failpoint.READER_PRODUCED)
            self._on_durable(frame, self.next_offset - 1)

    async def drained(self) -> None:
        """Until nothing is in flight; `settle` must be running."""
        while self._sent:
            self._something_settled.clear()
            await self._something_settled.wait()

    async def _send(self, frame: SealedFrame) -> None:
        self._fly(frame.size)
        try:
            async with asyncio.timeout(self._ack_seconds):
                future = await self._taken(frame)
        except KafkaError as error:
            raise epoch_over(type(error).__name__) from error
        except TimeoutError:
            raise epoch_over("no room in time") from None
        future.add_done_callback(_seen)
        self._sent.append((frame.sent(), future))
        reach(Failpoint.READER_SENT)
        self._something_sent.set()

    async def _taken(self, frame: SealedFrame) -> asyncio.Future[Any]:
        """A client that finds no room within its request timeout has not taken the frame, and nothing has failed."""
        while True:
            with suppress(KafkaTimeoutError):
                future: asyncio.Future[Any] = await self._producer.send(self._topic, frame.data, partition=_PARTITION)
                return future

    def _fly(self, change_bytes: int) -> None:
        self.in_flight_bytes += change_bytes
        self._on_flight(self.in_flight_bytes)

    def _settled(self, frame: SentFrame, offset: int) -> None:
        if offset != self.next_offset:
            raise epoch_over(f"frame {frame.seq} is at offset {offset}, expected {self.next_offset}")
        self.next_offset += 1


async def open_producer(kafka: KafkaConfig, raw_topic: RawTopic) -> Any:
    compression = None if raw_topic.compression is Compression.NONE else raw_topic.compression.value
    producer = AIOKafkaProducer(
        **client_options(kafka),
        acks="all",
        enable_idempotence=True,
        compression_type=compression,
        max_batch_size=largest_batch(raw_topic),
        max_request_size=largest_batch(raw_topic) + BATCH_OVERHEAD_BYTES,
        linger_ms=0,
    )
    try:
        async with asyncio.timeout(START_SECONDS):
            await producer.start()
    except KafkaError as error:
        await close_producer(producer)
        raise unavailable(error) from error
    except TimeoutError:
        await close_producer(producer)
        raise unavailable(None) from None
    return producer


async def close_producer(producer: Any) -> None:
    """What is in flight may still arrive; nobody counts on it, the next epoch finds it or not."""
    with suppress(KafkaError, TimeoutError):
        async with asyncio.timeout(CLOSE_SECONDS):
            await producer.stop()


async def publish_epoch_frame(producer: Any, topic: str, data: bytes, expected_offset: int) -> None:
    """The first frame of an epoch. Elsewhere than expected, somebody else has written since the tail was read."""
    try:
        future = await producer.send(topic, data, partition=_PARTITION)
    except KafkaError as error:
        raise epoch_over(type(error).__name__) from error
    offset = await _outcome(future, START_SECONDS)
    if offset != expected_offset:
        raise epoch_over(f"the epoch frame is at offset {offset}, expected {expected_offset}")


def _seen(future: asyncio.Future[Any]) -> None:
    """The first frame that fails ends the epoch; nobody asks for those behind it, and asyncio would complain."""
    if not future.cancelled():
        future.exception()


async def _outcome(future: asyncio.Future[Any], ack_seconds: float) -> int:
    try:
        if not future.done():  # The frames of one batch are acknowledged together.
            async with asyncio.timeout(ack_seconds):
                await asyncio.shield(future)
        metadata = future.result()
    except KafkaError as error:
        raise epoch_over(type(error).__name__) from error
    except TimeoutError:
        raise epoch_over("no acknowledgement in time") from None
    offset: int = metadata.offset
    return offset


def epoch_over(reason: str) -> TransientError:
    return TransientError(
        f"a frame did not reach the raw topic as it had to: {reason}",
        code="EPOCH_OVER",
        remedy="The reader starts a new epoch, which reads what became of it. If it repeats, look for a second writer "
        "and at the brokers.",
    )
