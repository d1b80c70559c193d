"""Snapshot frames to rows that still count, each compared with the changes of its window.

| the window of a row's frame                 | comes from                                                       |
| ------------------------------------------- | ---------------------------------------------------------------- |
| none: its rows precede every change         | -                                                                |
| begins where this lane has read             | the last frames, which are remembered                            |
| begins before that, or is longer            | the raw topic, read once more and judged as the first time       |
| begins before the raw topic does            | an error: nobody can tell any more                               |
| of a table without a key                    | not looked up: nothing can be compared                           |

Invariant: the rows that count are the same on every replay, wherever the lane has begun: windows hold what the log says
between two of its places, and nothing that this lane happens to know.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from tidegate.config.snapshot import MOST_CONNECTIONS
from tidegate.contracts.frame import Frame, FrameKind
from tidegate.contracts.snapshot import SnapshotHead, decode_snapshot
from tidegate.errors import StreamError
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.messages import Relation
from tidegate.position import Position
from tidegate_processor.ingest import Ingest, Taken

if TYPE_CHECKING:  # kernels are loaded where frames are decoded, in a worker, and nowhere else
    from tidegate.columns.windows import Window

_REMEMBERED_BYTES = 16 * 2**20
# Each connection reads with a window of its own; a window that had to be begun anew would be told all of it again, for
# every frame. A few more, for readings that were cut off: nobody says so, and they are the ones not used any longer.
_MOST_WINDOWS = MOST_CONNECTIONS + 4

Record = tuple[int, bytes | None]
ReadBack = Callable[[int, int], Iterable[Record]]
"""The records of the raw topic from one offset on, up to another; a StreamError if it does not hold the first."""

_Key = tuple[int, Position, int]


def no_log(start: int, stop: int) -> Iterable[Record]:
    raise StreamError(
        f"the raw topic can't be read from offset {start} to {stop} here",
        code="SNAPSHOT_WINDOW_TRIMMED",
        remedy="Give the sink a new name, so that it begins behind this snapshot, and take a new one of the table.",
    )


class Snapshots:
    """Of one lane: fed with every frame that it takes, in order."""

    def __init__(self, topic_id: str, read_back: ReadBack, before_it: Callable[[], None]) -> None:
        """`before_it` is called before the log is read once more, which may take long."""
        self._topic_id, self._read_back, self._before_it = topic_id, read_back, before_it
        self._remembered: deque[tuple[int, Frame]] = deque()
        self._bytes = 0
        self._remembers_from: int | None = None
        self._windows: OrderedDict[_Key, tuple[Window, int]] = OrderedDict()
        """Each with the offset up to which it has been told."""

    def remember(self, taken: Taken) -> None:
        """Any frame; one with changes may be in the window of rows that come later."""
        if self._remembers_from is None:
            self._remembers_from = taken.offset
        if taken.epoch is not None:
            self._windows.clear()  # whoever read with them has ended
        if taken.frame.header.kind is not FrameKind.WAL or not taken.frame.header.changes:
            return
        self._remembered.append((taken.offset, taken.frame))
        self._bytes += len(taken.frame.body)
        while self._bytes > _REMEMBERED_BYTES:
            offset, frame = self._remembered.popleft()
            self._bytes -= len(frame.body)
            self._remembers_from = offset + 1

    def rows(self, taken: Taken) -> Frame:
        """The rows of a snapshot frame as a sink takes them."""
        from tidegate.columns.snapshots import frame_of_rows

        head, text = decode_snapshot(taken.frame.body)
        rows = frame_of_rows(taken.frame, head, text)
        if not head.has_window or not head.rows or not _has_key(taken.frame):
            return rows
        judgement = self._window(head, taken.offset).judge(rows, text)
        if head.is_last:
            del self._windows[_key(head)]
        if judgement.text is text and not judgement.left_out.any():
            return rows
        return frame_of_rows(taken.frame, head, judgement.text, judgement.left_out)

    def _window(self, head: SnapshotHead, offset: int) -> "Window":
        """Of the frame at this offset, told of all that lies in it."""
        from tidegate.columns.windows import Window

        key = _key(head)
        if key not in self._windows:
            self._windows[key] = Window(head.relation_id, head.low), head.low_offset
        window, told = self._windows.pop(key)
        for frame in self._between(told, offset):
            window.note(frame)
        self._windows[key] = window, offset
        if len(self._windows) > _MOST_WINDOWS:
            self._windows.popitem(last=False)
        return window

    def _between(self, start: int, stop: int) -> Iterator[Frame]:
        if start < stop and (self._remembers_from is None or start < self._remembers_from):
            return self._read_again(start, stop)
        return (frame for offset, frame in self._remembered if start <= offset < stop)

    def _read_again(self, start: int, stop: int) -> Iterator[Frame]:
        self._before_it()
        ingest = Ingest(None, self._topic_id, lambda: self._topic_id)
        for offset, value in self._read_back(start, stop):
            for taken in ingest.feed(offset, value):
                if taken.frame.header.kind is FrameKind.WAL:
                    yield taken.frame


def _has_key(frame: Frame) -> bool:
    """The schema section of such a frame holds the one Relation that its rows are of."""
    relations = (decode_message(entry.message) for entry in frame.schema)
    return any(column.is_key for each in relations if isinstance(each, Relation) for column in each.columns)


def _key(head: SnapshotHead) -> _Key:
    return head.relation_id, head.low, head.low_offset
