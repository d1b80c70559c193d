"""The topic of dead letters, read from an offset to its end.

Invariant: whatever stood in it when the look began has been read, committed or aborted. So one who has fenced a lane
before the look knows all that the lane has ever resolved.
"""

import re
import time
from collections.abc import Callable, Iterator

from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.error import KafkaError

from tidegate.config.pipeline import PipelineConfig
from tidegate.contracts import names
from tidegate.contracts.dead_letter import DeadLetter
from tidegate.contracts.resolution import Resolution, decode_record
from tidegate.errors import DecodeError, TransientError
from tidegate_processor.kafka_clients import client, librdkafka_settings
from tidegate_processor.kafka_refusals import mapped, refused

_CALL_SECONDS = 10.0
_SILENT_SECONDS = 20.0
"""Another lane's transaction holds back what stands behind it, for ten seconds at most if the lane has died."""
_ID = re.compile(rb'"id":"([0-9a-f]{32})"')


class LettersTopic:
    def __init__(self, config: PipelineConfig) -> None:
        self._settings = librdkafka_settings(config.kafka)
        self._topic = names.dead_letter_topic(config.pipeline)

    def read(
        self, start: int, wants: Callable[[str], bool], check: Callable[[], None]
    ) -> Iterator[tuple[int, DeadLetter | Resolution]]:
        """Resolutions, and the letters that are wanted. `check` is called now and then and may raise."""
        beginning, end = self._bounds()
        at = max(start, beginning)
        if at >= end:
            return
        settings = self._settings | {
            "group.id": "tidegate-look",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
        consumer = client(Consumer, settings)
        try:
            consumer.assign([TopicPartition(self._topic, 0, at)])
            for message in _until(end, consumer, check):
                record = _record(message.value(), wants)
                offset = message.offset()
                if record is not None and offset is not None:
                    yield offset, record
        finally:
            consumer.close()

    def _bounds(self) -> tuple[int, int]:
        """To its end, also what an open transaction has written."""
        admin, place = client(AdminClient, self._settings), TopicPartition(self._topic, 0)
        found = []
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):
            with mapped("look at the dead letters"):
                answer = admin.list_offsets({place: spec}, request_timeout=_CALL_SECONDS)
                found.append(int(answer[place].result().offset))
        return found[0], found[1]


def _until(end: int, consumer: Consumer, check: Callable[[], None]) -> Iterator[Message]:
    deadline = time.monotonic() + _SILENT_SECONDS
    while time.monotonic() < deadline:
        check()
        # One by one: consume() purges from its batch what another leader, say, has made outdated meanwhile.
        message = consumer.poll(0.5)
        if message is None:
            continue
        error = message.error()
        if error is None:
            deadline = time.monotonic() + _SILENT_SECONDS
            yield message
        elif error.code() == KafkaError._PARTITION_EOF:
            offset = message.offset()
            if offset is not None and offset >= end:
                return
        elif not error.retriable():
            raise refused(error, "read the dead letters")
    raise TransientError(
        "the topic of dead letters was not read to its end",
        code="DEAD_LETTERS_UNREADABLE",
        remedy="Check the brokers, and whether another lane's transaction hangs; it is tried again.",
    )


def _record(value: bytes | None, wants: Callable[[str], bool]) -> DeadLetter | Resolution | None:
    """Whole records are decoded only of those that are wanted: there may be a million."""
    if value is None:
        return None
    is_resolution = value.startswith(b'{"by":')
    if not is_resolution:
        found = _ID.search(value)
        if found is None or not wants(found[1].decode()):
            return None
    try:
        return decode_record(value)
    except DecodeError:
        return None  # what is none is none to the index either
