"""Events as lines of JSON, for sinks that deliver all tables in one stream: one event a line, in commit order.

Invariant: an event's JSON holds no newline (the kernels escape it), so a line is an event.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.columns import layout
from tidegate.columns.json_encode import EncodedFrame, TopicEvents
from tidegate.config.sinks import SinkConfig
from tidegate.contracts.frame import Frame
from tidegate.events import Operation
from tidegate.position import Position
from tidegate_processor.sinks.base import Receipt
from tidegate_processor.sinks.shared.events import EventEncoder

_ONE_STREAM = "lines"


class JsonLines:
    """What was written since the last `take`."""

    def __init__(self, pipeline: str, sink: SinkConfig) -> None:
        self._encoder = EventEncoder(pipeline, sink, _to_one_stream)
        self._pieces: list[bytes] = []

    def write(self, frame: Frame, after: Position) -> Receipt:
        encoded = self._encoder.encode(frame, after)
        pieces = [lines_of(events) for events in encoded.topics if len(events)]
        self._pieces += pieces
        return _receipt(encoded, sum(map(len, pieces)))

    def take(self) -> bytes:
        text = b"".join(self._pieces)
        self.drop()
        return text

    def drop(self) -> None:
        self._pieces.clear()


def lines_of(events: TopicEvents) -> bytes:
    """In columns: an object for each event would cost as much as making the events."""
    starts = events.places[:, layout.VALUE_AT]
    ends = starts + events.places[:, layout.VALUE_LENGTH]
    # Every second text is a value; those between are the keys, which lie before their values.
    offsets = np.column_stack((starts, ends)).ravel()
    begin, end = int(offsets[0]), int(offsets[-1])
    data = pa.py_buffer(np.ascontiguousarray(events.buffer[begin:end]))
    buffers = [None, pa.py_buffer(offsets - begin), data]
    texts = pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
    values = texts.take(pa.array(np.arange(0, len(texts), 2)))
    joined = pc.binary_join_element_wise(values, pa.scalar(b"", pa.large_binary()), pa.scalar(b"\n", pa.large_binary()))
    whole = pa.concat_arrays([joined])  # from offset 0, so that its bytes are one piece
    return bytes(whole.buffers()[2])


def _to_one_stream(_schema: str, _table: str, _operation: Operation) -> str:
    return _ONE_STREAM


def _receipt(encoded: EncodedFrame, written: int) -> Receipt:
    return Receipt(encoded.events, written, encoded.rejected, encoded.newest_commit_time)
