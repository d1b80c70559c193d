"""The first frame that does not land where it must ends the epoch; nothing behind it is ever reported as durable."""

import asyncio
import functools
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from aiokafka.errors import KafkaError, KafkaTimeoutError
from kit.wait import wait_async

from tidegate.config.kafka import RawTopic
from tidegate.errors import TransientError
from tidegate.lsn import Lsn
from tidegate.position import BEGINNING
from tidegate_reader.frames import SealedFrame, SentFrame
from tidegate_reader.publisher import MAX_FRAMES_IN_FLIGHT, Publisher

TOPIC = RawTopic(name="raw")


def in_a_loop(test: Callable[..., Coroutine[None, None, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(**arguments: object) -> None:
        asyncio.run(test(**arguments))

    return run


@dataclass
class Broker:
    """Answers when the test says so."""

    answers: list[asyncio.Future[SimpleNamespace]]

    async def send(self, topic: str, value: bytes, partition: int) -> asyncio.Future[SimpleNamespace]:
        assert (topic, partition) == ("raw", 0)
        self.answers.append(asyncio.get_running_loop().create_future())
        return self.answers[-1]

    def at(self, index: int, offset: int) -> None:
        self.answers[index].set_result(SimpleNamespace(offset=offset))


def frame(seq: int, size: int = 10) -> SealedFrame:
    return SealedFrame(seq, BEGINNING, Lsn(seq), 1, 0, size, bytes(size))


def publisher(durable: list[tuple[int, int]]) -> tuple[Publisher, Broker]:
    broker = Broker([])

    def note(each: SentFrame, offset: int) -> None:
        durable.append((each.seq, offset))

    return Publisher(broker, TOPIC, next_offset=7, on_durable=note, on_flight=lambda _: None), broker


@in_a_loop
async def test_a_client_that_has_no_room_yet_has_not_refused_a_frame() -> None:
    durable: list[tuple[int, int]] = []
    publisher_, broker = publisher(durable)
    takes, full = broker.send, [KafkaTimeoutError(), KafkaTimeoutError()]

    async def send(topic: str, value: bytes, partition: int) -> asyncio.Future[SimpleNamespace]:
        if full:
            raise full.pop()
        return await takes(topic, value, partition)

    broker.send = send  # type: ignore[method-assign]
    await publisher_.publish([frame(1), frame(2)])
    broker.at(0, 7)
    broker.at(1, 8)
    settling = asyncio.create_task(publisher_.settle())
    await publisher_.drained()
    settling.cancel()
    assert durable == [(1, 7), (2, 8)]


@in_a_loop
async def test_acknowledgements_are_taken_in_order() -> None:
    durable: list[tuple[int, int]] = []
    subject, broker = publisher(durable)
    async with asyncio.TaskGroup() as tasks:
        settling = tasks.create_task(subject.settle())
        await subject.publish([frame(1), frame(2)])
        broker.at(1, 8)
        broker.at(0, 7)
        await subject.drained()
        settling.cancel()
    assert (durable, subject.in_flight_bytes) == ([(1, 7), (2, 8)], 0)


@in_a_loop
async def test_the_bytes_of_a_frame_are_let_go_once_the_client_has_them() -> None:
    """They were kept until its acknowledgement, beside the client's own copy: 2 MB more at the peak of a snapshot."""
    durable: list[tuple[int, int]] = []
    subject, _ = publisher(durable)
    sealed = [SealedFrame(1, BEGINNING, Lsn(1), 1, 0, 1000, b"%0*d" % (1000, 1))]
    held = sys.getrefcount(sealed[0].data)
    data = sealed[0].data
    await subject.publish(sealed)
    sealed.clear()
    assert (sys.getrefcount(data), subject.in_flight_bytes) == (held, 1000)


@pytest.mark.parametrize("second", [7, 9, 6])
@in_a_loop
async def test_another_offset_ends_the_epoch(second: int) -> None:
    durable: list[tuple[int, int]] = []
    subject, broker = publisher(durable)
    await subject.publish([frame(1), frame(2), frame(3)])
    for index, offset in enumerate((7, second, second + 1)):
        broker.at(index, offset)
    with pytest.raises(TransientError) as over:
        await subject.settle()
    assert over.value.code == "EPOCH_OVER"
    assert durable == [(1, 7)]


@in_a_loop
async def test_a_failed_produce_ends_the_epoch_though_later_ones_succeed() -> None:
    durable: list[tuple[int, int]] = []
    subject, broker = publisher(durable)
    await subject.publish([frame(1), frame(2)])
    broker.answers[0].set_exception(KafkaError())
    broker.at(1, 7)
    with pytest.raises(TransientError):
        await subject.settle()
    assert durable == []


@pytest.mark.parametrize(("size", "fit"), [(TOPIC.max_in_flight // 2, 2), (10, MAX_FRAMES_IN_FLIGHT)])
@in_a_loop
async def test_a_full_pipe_makes_the_source_wait(size: int, fit: int) -> None:
    durable: list[tuple[int, int]] = []
    subject, broker = publisher(durable)
    async with asyncio.TaskGroup() as tasks:
        settling = tasks.create_task(subject.settle())
        publishing = tasks.create_task(subject.publish([frame(seq, size) for seq in range(fit + 1)]))
        await wait_async(lambda: subject.is_blocked, 5, "the pipe is full")
        assert len(broker.answers) == fit
        broker.at(0, 7)
        await publishing
        settling.cancel()
    assert len(broker.answers) == fit + 1
