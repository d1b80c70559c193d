"""The raw topic, looked into frame by frame: for finding a place in it, not for delivering from it."""

import time
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from tidegate.config.pipeline import PipelineConfig
from tidegate.contracts.epoch import decode_epoch
from tidegate.contracts.frame import Frame, FrameKind, decode_frame
from tidegate.errors import TransientError
from tidegate_processor.epoch_walk import Seen
from tidegate_processor.kafka_clients import client, librdkafka_settings, look_at
from tidegate_processor.parts import goes_on, joined

_CALL_SECONDS = 10.0
_POLL_SECONDS = 0.5


class KafkaRawLog:
    def __init__(self, config: PipelineConfig) -> None:
        self._topic = config.raw_topic.name
        view = look_at(config.kafka, self._topic)
        self.id, self.beginning, self.end = view.id, view.beginning, view.end
        settings = librdkafka_settings(config.kafka)
        self._consumer = client(Consumer, settings | {"group.id": "tidegate-look", "enable.auto.commit": False})
        self._stands_at: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def at(self, offset: int) -> Seen | None:
        found = self.frame_at(offset)
        if found is None:
            return None
        place, frame = found
        epoch = decode_epoch(frame.body) if frame.header.kind is FrameKind.EPOCH else None
        return Seen(place, frame.header, epoch)

    def frame_at(self, offset: int) -> tuple[int, Frame] | None:
        """The first at or behind an offset, and where it stands."""
        if offset >= self.end:
            return None
        message = self._read(max(offset, self.beginning))
        found, value = message.offset(), message.value()
        if found is None or value is None:
            raise _unreadable("a record without a value")
        self._stands_at = found + 1
        return found, decode_frame(value)

    def whole_at(self, offset: int) -> Frame | None:
        """The frame there, with all parts of its message if it is the last one of them."""
        found = self.frame_at(offset)
        if found is None or found[0] != offset:
            return None
        header = found[1].header
        if not header.parts:
            return found[1]
        parts: list[Frame] = []
        for at in range(offset - header.part + 1, offset + 1):
            part = self.frame_at(at) if at >= self.beginning else None
            if part is None or not goes_on(parts, part[1]):
                return None
            parts.append(part[1])
        return joined(parts) if header.part == header.parts else None

    def offset_since(self, time: int) -> int | None:
        wanted = TopicPartition(self._topic, 0, time // 1000)
        try:
            (found,) = self._consumer.offsets_for_times([wanted], timeout=_CALL_SECONDS)
        except KafkaException as error:
            raise _unreadable(error.args[0].name()) from error
        return found.offset if 0 <= found.offset < self.end else None

    def _read(self, offset: int) -> Message:
        deadline = time.monotonic() + _CALL_SECONDS
        if offset != self._stands_at:
            self._consumer.assign([TopicPartition(self._topic, 0, offset)])
        while time.monotonic() < deadline:
            message = self._consumer.poll(_POLL_SECONDS)
            if message is None:
                continue
            error = message.error()
            if error is None:
                return message
            if not error.retriable():
                raise _unreadable(error.name())
        raise _unreadable("no record came")


def _unreadable(why: str) -> TransientError:
    return TransientError(
        f"Kafka did not give a frame of the raw topic: {why}",
        code="RAW_TOPIC_UNREADABLE",
        remedy="Check the brokers and the user's right to read the topic; it is tried again.",
    )
