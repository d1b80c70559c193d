"""What the raw topic holds, by the words of the frame's format: a frame that ends with a COMMIT lets all of it go.

Otherwise the last transaction would be sent again at every start, and a quiet source would never be let go of.
Invariant: reads bytes only; nothing of the reader's code.
"""

from confluent_kafka import Consumer, TopicPartition

from tidegate.contracts import names
from tidegate.contracts.frame import Frame, FrameKind, body_messages, decode_frame
from tidegate.errors import DecodeError

_AT_ONCE = 2_000
_COMMIT = b"C"


class RawWatch:
    def __init__(self, bootstrap: str, pipeline: str) -> None:
        self._topic = names.raw_topic(pipeline)
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"chaos-raw-{pipeline}",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(self._topic, 0, 0)])

    def close(self) -> None:
        self._consumer.close()

    def wrong(self) -> list[str]:
        """Of the frames that have come since the last call."""
        found: list[str] = []
        while messages := self._consumer.consume(_AT_ONCE, 0.2):
            for message in messages:
                value = message.value()
                if message.error() is None and value is not None:
                    found += _wrong(message.offset() or 0, value)
            if any(message.error() is not None for message in messages):
                break
        return found


def _wrong(offset: int, value: bytes) -> list[str]:
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
    if header.kind is not FrameKind.WAL or header.parts != 1:
        return None
    last = b""
    for _, message in body_messages(frame):
        last = bytes(message)
    return int.from_bytes(last[10:18], "big") if last[:1] == _COMMIT else None
