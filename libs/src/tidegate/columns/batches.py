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
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from tidegate.columns import gather, layout
from tidegate.columns.envelopes import LETTERS, EventSource, default_envelope
from tidegate.columns.frames import Changes, scan_frame
from tidegate.columns.identity import HASH_WORDS
from tidegate.columns.kernels import arrange
from tidegate.columns.layout import Refusal
from tidegate.columns.message_rows import message_rows
from tidegate.columns.plans import PLANS_KEPT, Plans, Shape
from tidegate.columns.record_batches import DATA, BatchLayout
from tidegate.columns.refusals import RejectedChange, decode_error, record_error, rejected
from tidegate.contracts.frame import Frame
from tidegate.errors import RecordError
from tidegate.events import SNAPSHOT_ORDINALS, Operation
from tidegate.pgoutput.messages import Relation
from tidegate.position import BEGINNING, Position

_Tables: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]

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
    """Rows of one relation version. Made by a decoder; arrays but `rows` and `unsent` are for the kernels behind it."""

    __slots__ = ("_bits", "_changes", "_layout", "_order", "_read", "message", "places", "rejected", "shape", "sizes")

    def __init__(
        self,
        shape: Shape,
        layout_: BatchLayout,
        message: np.ndarray,
        places: np.ndarray,
        sizes: np.ndarray,
        bits: np.ndarray | None,
        rejected: tuple[RejectedChange, ...],
        changes: Changes,
        order: np.ndarray,
    ) -> None:
        self.shape, self.message, self.places, self.sizes = shape, message, places, sizes
        self.rejected, self._changes, self._order = rejected, changes, order
        self._layout, self._bits = layout_, bits
        self._read: pa.RecordBatch | None = None

    @property
    def rows(self) -> pa.RecordBatch:
        if self._read is None:
            self._read = self._layout.read(self.message)
        return self._read

    def __len__(self) -> int:
        return self._layout.rows(self.message)

    def refused(self, row: int, error: RecordError) -> RejectedChange:
        """The change of one of its rows, because the target does not take it."""
        return rejected(self._changes, int(self._order[row]), error)

    @property
    def unsent(self) -> Mapping[int, pa.Array]:
        """By the column's place in `rows`: true where the server did not send the value."""
        if self._bits is None:
            return {}
        rows, first = len(self), len(HEAD)
        return {first + at: _mask(rows, self._bits[at]) for at in np.flatnonzero(self._bits.any(axis=1)).tolist()}


class FrameDecoder:
    """Keeps what it knows of relations between frames. Not for two threads at once."""

    def __init__(self, source: EventSource) -> None:
        self._system_id = np.uint64(source.system_id)
        # Each relation version is a topic of its own here, so that a pass by topic is a pass by relation.
        self._plans = Plans(source, lambda *_: "", default_envelope)
        self._layouts: dict[Shape, BatchLayout] = {}
        # Tables of equal columns share one: a thousand tenants' would not fit the processor's caches.
        self._layouts_of: dict[tuple[str, ...], BatchLayout] = {}
        self._words, self._scratch = np.empty(HASH_WORDS, np.uint64), np.empty(gather.SCRATCH_BYTES, np.uint8)

    def decode(self, frame: Frame, after: Position = BEGINNING) -> tuple[ChangeBatch, ...]:
        """The change batches of a `wal` frame that is whole or re-joined, of what lies above `after`.

        A snapshot frame comes as `frame_of_rows` makes it.
        """
        section = self._plans.section(frame)
        changes = scan_frame(frame, after, section, section.topics)
        relations = len(section.ids)
        order = np.empty(len(changes.rows), np.int64)
        ends = np.zeros(relations + 1, np.int64)
        arrange(changes.rows, _by_relation(relations), ends, order)
        return tuple(self._batches(changes, order, ends.tolist()))

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
        return message_rows(changes, int(self._system_id))

    def _batches(self, changes: Changes, order: np.ndarray, ends: list[int]) -> Iterator[ChangeBatch]:
        at = 0
        for shape, end in zip(changes.section.shapes, ends, strict=False):
            if end > at:
                yield self._batch(changes, order[at:end], shape)
            at = end

    def _batch(self, changes: Changes, order: np.ndarray, shape: Shape) -> ChangeBatch:
        layout_ = self._layout(shape)
        plan = layout_.widths, layout_.numbers
        message_head, places = layout_.prefix.copy(), layout_.places()
        sizes = np.empty(2 * len(shape.relation.columns), np.int64)
        refused = np.empty(len(order), np.int64)
        body, tables = changes.body, changes.section.tables
        kept, out, failure, words = gather.measure(
            body, changes.rows, order, tables, refused, sizes, *plan, message_head, places
        )
        if failure:
            raise decode_error(changes, int(refused[out]), Refusal(failure))
        rows, message = order[:kept], np.empty(words, np.int64)
        message[: len(message_head)] = message_head
        bits = np.zeros((len(sizes), (kept + 7) // 8), np.uint8)
        own = self._system_id, self._words, self._scratch
        unsent = gather.fill(body, changes.rows, rows, changes.transactions, tables, *own, *plan, places, message, bits)
        if changes.operation is Operation.SNAPSHOT:
            _mark_as_rows(message, places, kept)
        letters = tuple(self._rejected(changes, refused[:out].tolist())) if out else ()
        return ChangeBatch(shape, layout_, message, places, sizes, bits if unsent else None, letters, changes, rows)

    def _rejected(self, changes: Changes, rows: list[int]) -> Iterator[RejectedChange]:
        for row in rows:
            yield rejected(changes, row, record_error(changes, row, Refusal.BINARY_VALUE))

    def _layout(self, shape: Shape) -> BatchLayout:
        found = self._layouts.get(shape)
        if found is None:
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


def _mark_as_rows(message: np.ndarray, places: np.ndarray, rows: int) -> None:
    """Kernels take them for inserts of a transaction that is their name: they say where the frame stands instead."""
    op, _, commit_lsn, ordinal, lsn = places[:5, DATA].tolist()
    message.view(np.uint8)[op : op + rows] = ord(LETTERS[Operation.SNAPSHOT])
    words = message.view(np.uint64)
    words[commit_lsn // 8 : commit_lsn // 8 + rows] = words[lsn // 8 : lsn // 8 + rows]
    words[ordinal // 8 : ordinal // 8 + rows] += np.uint64(SNAPSHOT_ORDINALS)


@lru_cache(maxsize=256)
def _by_relation(relations: int) -> np.ndarray:
    """A topic a relation, whatever the operation."""
    return np.repeat(np.arange(relations, dtype=np.int64), layout.OPERATIONS).reshape(relations, layout.OPERATIONS)


def _mask(rows: int, bits: np.ndarray) -> pa.Array:
    return pa.Array.from_buffers(pa.bool_(), rows, [None, pa.py_buffer(bits)])
