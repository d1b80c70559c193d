"""Puts models where production modules reach for the outside, for one run, and takes them away again.

Invariant: every name that is replaced exists; one that was renamed in production stops the simulator with its name.
"""

import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from chaos.simulator import edges
from chaos.simulator.clock import Pause
from chaos.simulator.memory import STAND_INS
from chaos.simulator.verdicts import epoch_is_decided, lineage_is_unknown, reader_has_looked
from kit.pipelines import POSTGRES_PASSWORD, REDIS_PASSWORD, checked, document

import tidegate_processor.commit
import tidegate_processor.control
import tidegate_processor.place
import tidegate_processor.portion
import tidegate_reader.feedback
import tidegate_reader.gap
import tidegate_reader.history_probe
import tidegate_reader.intake
import tidegate_reader.opening
import tidegate_reader.publisher
import tidegate_reader.raw_log
import tidegate_reader.raw_watch
import tidegate_reader.removed_sinks
import tidegate_reader.repair
import tidegate_reader.required_sinks
import tidegate_reader.resume
import tidegate_reader.slot_making
import tidegate_reader.snapshot.levelling
from tidegate.checkpoint.redis_store import read_acks, read_lineage
from tidegate.config.pipeline import PipelineConfig
from tidegate.contracts.names import lineage_key
from tidegate.errors import TransientError

if TYPE_CHECKING:
    from chaos.simulator.world import World

# The ratio of production (256 to 64), on a smaller scale: a run has hundreds of frames, not millions.
WINDOW = 64
FRAMES_IN_FLIGHT = 16


@cache
def configuration(named: tuple[tuple[str, bool], ...], *, resnapshots: bool = False) -> PipelineConfig:
    """Of each sink, whether it is required."""
    sinks = [{"name": name, "type": "kafka_topics", "required": required} for name, required in named]
    values = document("sim", kafka="127.0.0.1:9092", redis_url="redis://127.0.0.1:6379/0", sinks=sinks)
    values["source"]["slot"] = {"on_lost": "resnapshot" if resnapshots else "fail"}
    return checked(values, {POSTGRES_PASSWORD: "none", REDIS_PASSWORD: "none"})


async def _pause(seconds: float) -> None:
    await Pause()


class _Unlimited:
    """`asyncio.timeout` around what takes its time."""

    async def __aenter__(self) -> None:
        await Pause()
        await Pause()

    async def __aexit__(self, *_: object) -> None:
        return


class _Secrets:
    """Nonces that are the seed's."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def token_bytes(self, count: int) -> bytes:
        return self._dice.randbytes(count)

    def token_hex(self, count: int) -> str:
        return self._dice.randbytes(count).hex()


@contextmanager
def models(world: "World") -> Iterator[None]:
    before: list[tuple[Any, str, Any]] = []
    log = logging.getLogger("tidegate")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)  # faults are what a run is made of
    try:
        for module, name, stand_in in _stand_ins(world):
            before.append((module, name, getattr(module, name)))
            setattr(module, name, stand_in)
        yield
        world.close()
    finally:
        log.setLevel(level)
        for module, name, real in reversed(before):
            setattr(module, name, real)


def _stand_ins(world: "World") -> list[tuple[Any, str, Any]]:
    clock = world.time
    return [
        *_of_the_start(world),
        *_of_the_watch(world),
        *_of_the_gap(world),
        *_of_the_repair(world),
        *STAND_INS,
        (tidegate_reader.raw_log, "WINDOW", WINDOW),
        (tidegate_reader.publisher, "MAX_FRAMES_IN_FLIGHT", FRAMES_IN_FLIGHT),
        (tidegate_reader.intake, "time", clock),
        (tidegate_reader.intake, "asyncio", SimpleNamespace(sleep=_pause)),
        (tidegate_reader.feedback, "time", clock),
        (tidegate_reader.history_probe, "time", clock),
        (tidegate_reader.history_probe, "answering", lambda _: nullcontext()),
        (tidegate_processor.commit, "time", clock),
        (tidegate_processor.place, "time", clock),
        (tidegate_processor.portion, "time", clock),
        (tidegate_processor.commit, "unix_microseconds", clock.unix_microseconds),
        (tidegate_processor.control, "unix_microseconds", clock.unix_microseconds),
    ]


def _of_the_start(world: "World") -> list[tuple[Any, str, Any]]:
    opening, clock = tidegate_reader.opening, world.time

    async def check(config: PipelineConfig, side: Any) -> Any:
        return await edges.check(world, side)

    async def read_log(kafka: Any, topic: str, topic_id: str) -> Any:
        log = await edges.read_raw_log(world, topic_id)
        reader_has_looked(world, range(log.beginning, log.end))
        return log

    async def topic_id(config: PipelineConfig) -> str:
        await Pause()
        return world.topic.id

    async def lineage(redis: Any, pipeline: str) -> Any:
        found = read_lineage(redis, pipeline)
        is_forgotten = found is None and (world.has_begun or world.redis.has_forgotten)
        assert world.acting is not None
        world.acting.knows_no_past = is_forgotten
        if is_forgotten:
            lineage_is_unknown(world)
        return found

    async def say(redis: Any, pipeline: str, lineage: Any) -> None:
        if not redis.is_up:
            raise TransientError("the model is down", code="ACK_STORE_UNAVAILABLE")
        redis.set(lineage_key(pipeline), lineage.encode())

    async def stream(config: PipelineConfig) -> Any:
        return edges.Stream(world)

    async def producer(kafka: Any, raw_topic: Any) -> Any:
        return world.new_producer()

    async def nothing(*_: Any, **__: Any) -> None:
        return

    async def epoch_frame(producer: Any, topic: str, data: bytes, expected: int) -> None:
        epoch_is_decided(world)
        await edges.publish_epoch_frame(producer, data, expected)

    return [
        (opening, "check", check),
        (opening, "read_raw_log", read_log),
        (opening, "current_topic_id", topic_id),
        (tidegate_reader.slot_making, "ensure_publication", nothing),
        (opening, "connect_async", lambda _: world.redis),
        (opening, "lineage_now", lineage),
        (opening, "say_lineage", say),
        (opening, "open_stream", stream),
        (opening, "open_producer", producer),
        (opening, "close_producer", nothing),
        (opening, "publish_epoch_frame", epoch_frame),
        (opening, "version", lambda _: "0"),
        (opening, "secrets", _Secrets(world.seed)),
        (opening, "unix_microseconds", clock.unix_microseconds),
    ]


def _of_the_watch(world: "World") -> list[tuple[Any, str, Any]]:
    async def read_log(kafka: Any, topic: str, topic_id: str) -> Any:
        return await edges.read_raw_log(world, topic_id)

    return [
        (tidegate_reader.required_sinks, "read_raw_log", read_log),
        (tidegate_reader.removed_sinks, "connect_async", lambda _: world.redis),
        (tidegate_reader.removed_sinks, "asyncio", SimpleNamespace(timeout=lambda _: _Unlimited())),
        (tidegate_reader.raw_watch, "read_raw_log", read_log),
        (tidegate_reader.raw_watch, "time", world.time),
    ]


def _of_the_gap(world: "World") -> list[tuple[Any, str, Any]]:
    gap = tidegate_reader.gap

    async def spoken(config: PipelineConfig) -> bool:
        return True

    return [
        (gap, "connect_async", lambda _: world.redis),
        (gap, "read_now", read_acks),
        (gap, "lanes_have_spoken", spoken),
        (gap, "pause", _pause),
        (gap, "time", world.time),
    ]


def _of_the_repair(world: "World") -> list[tuple[Any, str, Any]]:
    """The snapshots topic, which no fault takes: what is noted stays."""
    repair = tidegate_reader.repair

    async def read_kept(config: PipelineConfig, generation: str) -> Any:
        await Pause()
        return world.notes.kept(generation)

    async def write_record(producer: Any, config: PipelineConfig, generation: Any, record: Any) -> None:
        await Pause()
        world.notes.write(generation.id, record)

    async def nothing(*_: Any) -> None:
        return

    return [
        (repair, "read_kept", read_kept),
        (repair, "write_record", write_record),
        (repair, "open_producer", nothing),
        (repair, "close_producer", nothing),
        (repair, "secrets", _Secrets(world.seed + 1)),
        (repair, "unix_microseconds", world.time.unix_microseconds),
        (tidegate_reader.snapshot.levelling, "unix_microseconds", world.time.unix_microseconds),
    ]
