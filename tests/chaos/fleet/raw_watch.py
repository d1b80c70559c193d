"""What the raw topic holds, by the words of the frame's format: a frame that ends with a COMMIT lets all of it go.

Otherwise the last transaction would be sent again at every start, and a quiet source would never be let go of.
Invariant: reads bytes only; nothing of the reader's code.
"""

import time
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tidegate.contracts import names
from tidegate.contracts.frame import Frame, FrameKind, body_messages, decode_frame
from tidegate.errors import DecodeError

_AT_ONCE = 2_000
_READ_SECONDS = 20.0
_COMMIT = b"C"


class RawWatch:
    def __init__(self, bootstrap: str, pipeline: str) -> None:
        self._topic = names.raw_topic(pipeline)
        self._settings = {
            "bootstrap.servers": bootstrap,
            "group.id": f"chaos-raw-{pipeline}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
        self._consumer: Consumer | None = None

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def wrong(self) -> list[str]:
        """Of the frames that have come since the last call; one at least, for the sentinel is among them."""
        found: list[str] = []
        frames = 0
        for value, offset in self._new():
            frames += 1
            found += wrong_with(offset, value)
        return found if frames else ["the raw topic could not be read"]

    def _new(self) -> Iterator[tuple[bytes, int]]:
        """Up to its end. A topic that was deleted and made again is read from its beginning."""
        deadline = time.monotonic() + _READ_SECONDS
        at_end = False
        while not at_end and time.monotonic() < deadline:
            for message in self._opened().consume(_AT_ONCE, 0.5):
                error, value = message.error(), message.value()
                if error is None and value is not None:
                    at_end = False
                    yield value, message.offset() or 0
                elif error is not None and error.code() == KafkaError._PARTITION_EOF:
                    at_end = True
                elif error is not None:
                    self.close()
                    break

    def _opened(self) -> Consumer:
        """Made late: a consumer of a topic that is not there yet does not look for it again for minutes."""
        if self._consumer is None:
            self._consumer = Consumer(self._settings)
            self._consumer.assign([TopicPartition(self._topic, 0, 0)])
        return self._consumer


def wrong_with(offset: int, value: bytes) -> list[str]:
    try:
        frame = decode_frame(value)
    except DecodeError as error:
        return [f"the record at raw offset {offset} is no frame: {error.code}"]
    end = _end_of_commit(frame)
    if end is not None and frame.header.safe_lsn < end:
        return [f"the frame at raw offset {offset} ends with a COMMIT, and does not let it go"]
    return []


def _end_of_commit(frame: Frame) -> int | None:
    """PostgreSQL manual, logical replication message formats: Commit is tag, flags, LSN, end LSN, time."""
    header = frame.header
    if header.kind is not FrameKind.WAL or header.parts > 1:
        return None
    last = b""
    for _, message in body_messages(frame):
        last = bytes(message)
    return int.from_bytes(last[10:18], "big") if last[:1] == _COMMIT else None
