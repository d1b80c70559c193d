"""Frames to change batches: the rows of one relation version as Arrow columns of text, exactly as PostgreSQL sent them.

    for change_batch in decoder.decode(frame, after=position): …

| column | type | |
| --- | --- | --- |
| `op` | uint8 | the operation's letter: `c` `u` `d` `t` |
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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from tidegate.columns import gather, layout
from tidegate.columns.envelopes import EventSource, default_envelope
from tidegate.columns.frames import Changes, scan_frame
from tidegate.columns.identity import HASH_WORDS
from tidegate.columns.kernels import arrange
from tidegate.columns.layout import Refusal
from tidegate.columns.plans import PLANS_KEPT, Plans, Shape
from tidegate.columns.refusals import RejectedChange, decode_error, record_error, rejected
from tidegate.contracts.frame import Frame
from tidegate.position import BEGINNING, Position

_Tables: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]

_LETTERS = np.frombuffer(b"cudt", np.uint8)
_SIDES = ("new", "old")
_ID_BYTES = 16
_TEXT = pa.large_binary()
_HEAD = (
    pa.field("op", pa.uint8()),
    pa.field("id", pa.binary(_ID_BYTES)),
    pa.field("commit_lsn", pa.uint64()),
    pa.field("ordinal", pa.uint64()),
    pa.field("lsn", pa.uint64()),
    pa.field("xid", pa.uint32()),
    pa.field("commit_time", pa.int64()),
    pa.field("old_kind", pa.uint8()),
)
# In a truncate the field holds its options, which stay below any letter.
_NO_OLD_ROW = 3


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    shape: Shape
    rows: pa.RecordBatch
    unsent: Mapping[int, pa.Array]
    """By the column's place in `rows`: true where the server did not send the value."""
    rejected: tuple[RejectedChange, ...] = ()


class FrameDecoder:
    """Keeps what it knows of relations between frames. Not for two threads at once."""

    def __init__(self, source: EventSource) -> None:
        self._system_id = np.uint64(source.system_id)
        # Each relation version is a topic of its own here, so that a pass by topic is a pass by relation.
        self._plans = Plans(source, lambda *_: "", default_envelope)
        self._schemas: dict[Shape, pa.Schema] = {}

    def decode(self, frame: Frame, after: Position = BEGINNING) -> tuple[ChangeBatch, ...]:
        """The change batches of a `wal` frame that is whole or re-joined, of what lies above `after`."""
        section = self._plans.section(frame)
        changes = scan_frame(frame, after, section, section.topics)
        relations = len(section.ids)
        by_relation = np.repeat(np.arange(relations, dtype=np.int64), layout.OPERATIONS).reshape(relations, -1)
        order = np.empty(len(changes.rows), np.int64)
        ends = np.zeros(relations + 1, np.int64)
        arrange(changes.rows, by_relation, ends, order)
        return tuple(self._batches(changes, order, ends.tolist()))

    def _batches(self, changes: Changes, order: np.ndarray, ends: list[int]) -> Iterator[ChangeBatch]:
        at = 0
        for shape, end in zip(changes.section.shapes, ends, strict=False):
            if end > at:
                yield self._batch(changes, order[at:end], shape)
            at = end

    def _batch(self, changes: Changes, order: np.ndarray, shape: Shape) -> ChangeBatch:
        width = len(shape.relation.columns)
        has_old = bool((changes.rows[order, layout.OLD_KIND] > _NO_OLD_ROW).any())
        columns = width * (1 + has_old)
        tables = changes.section.relations, self._plans.columns.view, np.empty((width, layout.VALUE_FIELDS), np.int64)
        offsets = np.zeros((columns, len(order) + 1), np.int64)
        refused = np.empty(len(order), np.int64)
        kept, out, failure = gather.measure(changes.body, changes.rows, order, *tables, offsets, refused)
        if failure:
            raise decode_error(changes, int(refused[out]), Refusal(failure))
        rows = order[:kept]
        texts, masks = self._columns(changes, rows, tables, np.ascontiguousarray(offsets[:, : kept + 1]))
        texts += [pa.nulls(kept, _TEXT)] * (2 * width - columns)
        head = self._head(changes, rows)
        batch = pa.RecordBatch.from_arrays([*head, *texts], schema=self._schema(shape))
        errors = ((row, record_error(changes, row, Refusal.BINARY_VALUE)) for row in refused[:out].tolist())
        letters = tuple(rejected(changes, row, error) for row, error in errors)
        return ChangeBatch(shape, batch, {len(head) + at: mask for at, mask in masks.items()}, letters)

    def _columns(
        self, changes: Changes, rows: np.ndarray, tables: _Tables, offsets: np.ndarray
    ) -> tuple[list[pa.Array], dict[int, pa.Array]]:
        columns, count = len(offsets), len(rows)
        sizes = offsets[:, -1]
        starts = np.cumsum(sizes) - sizes
        data = np.empty(int(sizes.sum()), np.uint8)
        valid, unsent = np.zeros((2, columns, (count + 7) // 8), np.uint8)
        nulls = np.zeros((columns, 2), np.int64)
        gather.fill(changes.body, changes.rows, rows, *tables, offsets, starts, data, valid, unsent, nulls)
        buffer = pa.py_buffer(data)
        places = zip(starts.tolist(), sizes.tolist(), nulls[:, 0].tolist(), strict=True)
        texts = [
            _text(count, valid[at], offsets[at], buffer.slice(start, size), null)
            for at, (start, size, null) in enumerate(places)
        ]
        return texts, {at: _mask(count, unsent[at]) for at in np.flatnonzero(nulls[:, 1]).tolist()}

    def _head(self, changes: Changes, rows: np.ndarray) -> list[pa.Array]:
        fields = changes.rows[rows]
        kinds = fields[:, layout.OLD_KIND]
        transactions = changes.transactions[fields[:, layout.TRANSACTION]]
        ids = np.empty((len(rows), _ID_BYTES), np.uint8)
        words, scratch = np.empty(HASH_WORDS, np.uint64), np.empty(gather.SCRATCH_BYTES, np.uint8)
        gather.identify(changes.rows, rows, changes.transactions, self._system_id, words, scratch, ids)
        head = (
            _LETTERS[fields[:, layout.OPERATION]],
            ids,
            transactions[:, layout.COMMIT_LSN],
            fields[:, layout.ORDINAL],
            fields[:, layout.LSN],
            transactions[:, layout.XID].astype(np.uint32),
            transactions[:, layout.COMMIT_TIME],
            np.where(kinds > _NO_OLD_ROW, kinds, 0).astype(np.uint8),
        )
        return [
            pa.Array.from_buffers(field.type, len(rows), [None, pa.py_buffer(np.ascontiguousarray(values))])
            for field, values in zip(_HEAD, head, strict=True)
        ]

    def _schema(self, shape: Shape) -> pa.Schema:
        found = self._schemas.get(shape)
        if found is None:
            if len(self._schemas) >= PLANS_KEPT:
                self._schemas.clear()
            names = (f"{side}.{column.name}" for side in _SIDES for column in shape.relation.columns)
            found = self._schemas[shape] = pa.schema([*_HEAD, *(pa.field(name, _TEXT) for name in names)])
        return found


def _text(rows: int, valid: np.ndarray, offsets: np.ndarray, data: pa.Buffer, nulls: int) -> pa.Array:
    bitmap = pa.py_buffer(valid) if nulls else None
    return pa.Array.from_buffers(_TEXT, rows, [bitmap, pa.py_buffer(offsets), data], nulls)


def _mask(rows: int, bits: np.ndarray) -> pa.Array:
    return pa.Array.from_buffers(pa.bool_(), rows, [None, pa.py_buffer(bits)])
