"""Frames to change batches: the rows of one relation version as Arrow columns of text, exactly as PostgreSQL sent them.

    for change_batch in decoder.decode(frame, after=position): …

| column | type | |
| --- | --- | --- |
| `op` | uint8 | the operation's letter: `c` `u` `d` `t`, in a snapshot `r` |
| `id` | fixed_size_binary(16) | the event's id |
| `commit_lsn` `ordinal` `lsn` | uint64 | position, and the change's own LSN |
| `xid` | uint32 | |
| `commit_time` | int64 | microseconds since 2000-01-01 UTC |
| `old_kind` | uint8 | `K` or `O` where there is an old row, else 0 |
| `new.<column>` `old.<column>` | large_binary | |

Invariant: a value is bytes, NULL, or not sent. What was not sent (an unchanged TOAST value; of an old row what is not
of the replica identity) is null in its column and true in the mask `unsent`; only columns with such values have one.
Offsets have 64 bits, so that no batch can overflow them. The rows of a batch stand in commit order.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

import numpy as np
import pyarrow as pa

from tidegate.columns import layout
from tidegate.columns.envelopes import LETTERS, EventSource, default_envelope
from tidegate.columns.frames import Changes, scan_frame
from tidegate.columns.gather import OWN_WORDS, SYSTEM_ID, gather
from tidegate.columns.kernels import arrange
from tidegate.columns.layout import Refusal
from tidegate.columns.message_rows import message_rows
from tidegate.columns.plans import PLANS_KEPT, Plans, Shape
from tidegate.columns.record_batches import BatchLayout
from tidegate.columns.refusals import RejectedChange, decode_error, record_error, rejected
from tidegate.contracts.frame import Frame
from tidegate.errors import RecordError
from tidegate.events import SNAPSHOT_ORDINALS, Operation
from tidegate.pgoutput.messages import Relation
from tidegate.position import BEGINNING, Position

_SIDES = ("new", "old")
_ID_BYTES = 16
_TEXT = pa.large_binary()
HEAD = (
    pa.field("op", pa.uint8()),
    pa.field("id", pa.binary(_ID_BYTES)),
    pa.field("commit_lsn", pa.uint64()),
    pa.field("ordinal", pa.uint64()),
    pa.field("lsn", pa.uint64()),
    pa.field("xid", pa.uint32()),
    pa.field("commit_time", pa.int64()),
    pa.field("old_kind", pa.uint8()),
)


class ChangeBatch:
    """Rows of one relation version. Made by a decoder; `layout` and `message` are for the kernels behind it."""

    __slots__ = ("_changes", "_has_marks", "_order", "_read", "_rows", "layout", "message", "rejected", "shape")

    def __init__(
        self,
        shape: Shape,
        layout_: BatchLayout,
        message: np.ndarray,
        rows: int,
        has_marks: bool,
        rejected: tuple[RejectedChange, ...],
        changes: Changes,
        order: np.ndarray,
    ) -> None:
        self.shape, self.layout, self.message, self.rejected = shape, layout_, message, rejected
        self._rows, self._has_marks, self._changes, self._order = rows, has_marks, changes, order
        self._read: pa.RecordBatch | None = None

    @property
    def rows(self) -> pa.RecordBatch:
        if self._read is None:
            self._read = self.layout.read(self.message)
        return self._read

    def __len__(self) -> int:
        return self._rows

    def refused(self, row: int, error: RecordError) -> RejectedChange:
        """The change of one of its rows, because the target does not take it."""
        return rejected(self._changes, int(self._order[row]), error)

    @property
    def unsent(self) -> Mapping[int, pa.Array]:
        """By the column's place in `rows`: true where the server did not send the value."""
        return self.layout.marked(self.message) if self._has_marks else {}


class FrameDecoder:
    """Keeps what it knows of relations between frames. Not for two threads at once."""

    def __init__(self, source: EventSource) -> None:
        # Each relation version is a topic of its own here, so that a pass by topic is a pass by relation.
        self._plans = Plans(source, lambda *_: "", default_envelope)
        self._layouts: dict[Shape, BatchLayout] = {}
        # Tables of equal columns share one: a thousand tenants' would not fit the processor's caches.
        self._layouts_of: dict[tuple[str, ...], BatchLayout] = {}
        self._own = np.zeros(OWN_WORDS, np.uint64)
        self._own[SYSTEM_ID] = source.system_id

    def decode(self, frame: Frame, after: Position = BEGINNING) -> tuple[ChangeBatch, ...]:
        """The change batches of a `wal` frame that is whole or re-joined, of what lies above `after`.

        A snapshot frame comes as `frame_of_rows` makes it.
        """
        section = self._plans.section(frame)
        changes = scan_frame(frame, after, section, section.topics)
        if len(section.shapes) == 1:
            rows = len(changes.rows)
            return (self._batch(changes, np.arange(rows), section.shapes[0]),) if rows else ()
        return tuple(self._batches(changes))

    def placed(
        self, frame: Frame, after: Position, wanted: np.ndarray, means: Callable[[Relation], bool]
    ) -> Iterator[tuple[ChangeBatch, np.ndarray]]:
        """As `decode`, of what is wanted (`scan_frame`) in those relations that are meant; with the places of its rows
        among all changes that are wanted."""
        section = self._plans.section(frame)
        changes = scan_frame(frame, after, section, wanted)
        for place, shape in enumerate(section.shapes):
            order = np.flatnonzero(changes.rows[:, layout.RELATION] == place)
            if len(order) and means(shape.relation):
                batch = self._batch(changes, order, shape)
                yield batch, order[: len(batch)]

    def messages(self, frame: Frame, after: Position = BEGINNING) -> pa.RecordBatch:
        """The transactional logical messages of a `wal` frame, as `message_rows` has them."""
        section = self._plans.section(frame)
        nothing = np.full((len(section.ids), layout.OPERATIONS), layout.NONE, np.int64)
        changes = scan_frame(frame, after, section, nothing, messages=True)
        return message_rows(changes, int(self._own[SYSTEM_ID]))

    def _batches(self, changes: Changes) -> Iterator[ChangeBatch]:
        relations, at = len(changes.section.shapes), 0
        order, ends = np.empty(len(changes.rows), np.int64), np.zeros(relations + 1, np.int64)
        arrange(changes.rows, _by_relation(relations), ends, order)
        for shape, end in zip(changes.section.shapes, ends.tolist(), strict=False):
            if end > at:
                yield self._batch(changes, order[at:end], shape)
            at = end

    def _batch(self, changes: Changes, order: np.ndarray, shape: Shape) -> ChangeBatch:
        layout_ = self._layouts.get(shape) or self._layout(shape)
        body, section, table, transactions, operation, _ = changes
        gathered = gather(body, table, order, transactions, section.tables, self._own, layout_.form)
        message, rows, marks, failure = gathered
        if failure:
            raise decode_error(changes, int(order[rows]), Refusal(failure))
        if operation is Operation.SNAPSHOT:
            _mark_as_rows(message, layout_, rows)
        refused = np.sort(order[rows:]).tolist() if rows < len(order) else ()
        letters = tuple([rejected(changes, row, record_error(changes, row, Refusal.BINARY_VALUE)) for row in refused])
        return ChangeBatch(shape, layout_, message, rows, marks > 0, letters, changes, order)

    def _layout(self, shape: Shape) -> BatchLayout:
        if len(self._layouts) >= PLANS_KEPT:
            self._layouts.clear()
            self._layouts_of.clear()
        names = tuple(f"{side}.{column.name}" for side in _SIDES for column in shape.relation.columns)
        found = self._layouts_of.get(names)
        if found is None:
            schema = pa.schema([*HEAD, *(pa.field(name, _TEXT) for name in names)])
            found = self._layouts_of[names] = BatchLayout(schema)
        self._layouts[shape] = found
        return found


def _mark_as_rows(message: np.ndarray, layout_: BatchLayout, rows: int) -> None:
    """Kernels take them for inserts of a transaction that is their name: they say where the frame stands instead."""
    op, _, commit_lsn, ordinal, lsn = (layout_.data_at(message, column) for column in range(5))
    message.view(np.uint8)[op : op + rows] = ord(LETTERS[Operation.SNAPSHOT])
    words = message.view(np.uint64)
    words[commit_lsn // 8 : commit_lsn // 8 + rows] = words[lsn // 8 : lsn // 8 + rows]
    words[ordinal // 8 : ordinal // 8 + rows] += np.uint64(SNAPSHOT_ORDINALS)


@lru_cache(maxsize=256)
def _by_relation(relations: int) -> np.ndarray:
    """A topic a relation, whatever the operation."""
    return np.repeat(np.arange(relations, dtype=np.int64), layout.OPERATIONS).reshape(relations, layout.OPERATIONS)
