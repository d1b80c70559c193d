"""Record batches by one call: kernels write Arrow's own message (IPC), and Arrow reads it where it lies.

    head                                                     body                                        marks
    | length | metadata: rows, nodes, buffers, body length | validity, offsets, data of each column | a bit a value |

To make an array object a column costs microseconds each, a hundred for a batch of one row. So the message of a schema
is made once, by Arrow itself, and of each batch only numbers in it differ: rows, nulls, and where the buffers lie.
Behind what Arrow reads stand marks, for what it has no word for: a bit for each value, column by column.

Invariant: only flat columns, of a fixed width or with offsets of 64 bits; every buffer begins at a multiple of eight.
A column without any value has no bytes of its own: its offsets and its validity are zeros, and one run of them serves
all such columns.
"""

import struct

import numpy as np
import pyarrow as pa

from tidegate.columns.compiled import inlined
from tidegate.columns.memory import address, address_of, byte, copy, field, put, row_of, set_field

LARGE = -1
"""In place of a width in bits: offsets and data."""

# What kernels are told of a layout: numbers, and addresses of its tables.
COLUMNS, TABLE_AT, HEAD_AT, HEAD_WORDS, ROWS, BODY_BYTES = range(6)

# A column in its table: its width, and which words of the head say how many nulls it has and where its buffers lie.
WIDTH, NODE, BUFFER = range(3)
_COLUMN_FIELDS = 3
_NULLS = 1
_NODE_WORDS = _BUFFER_WORDS = 2

# Of a column in `places`: addresses of its buffers, and how many bytes of data it has.
VALID, OFFSETS, DATA, DATA_BYTES = range(4)
PLACE_FIELDS = 4
ABSENT = -1
"""In place of the bytes: it has no value."""

# Flatbuffers (Message.fbs): fields of Message and RecordBatch by their place in the table.
_HEADER, _BODY_LENGTH = 2, 3
_LENGTH, _NODES, _BUFFERS = 0, 1, 2
_PREAMBLE = 8


class BatchLayout:
    """Of one schema: the head, as words, and the places of its numbers."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        rows = pa.RecordBatch.from_arrays([pa.nulls(1, each) for each in schema.types], schema=schema)
        message = rows.serialize().to_pybytes()
        (metadata,) = struct.unpack_from("<i", message, 4)
        self._head = np.frombuffer(message[: _PREAMBLE + metadata], np.int64)
        header, body = _table(message, _PREAMBLE + struct.unpack_from("<I", message, _PREAMBLE)[0])
        node, buffer = (_items(message, header[each]) // 8 for each in (_NODES, _BUFFERS))
        self._table = np.empty((len(schema), _COLUMN_FIELDS), np.int64)
        for column, type_ in enumerate(schema.types):
            self._table[column] = _width(type_), node, buffer
            node += _NODE_WORDS
            buffer += _BUFFER_WORDS * _buffers(_width(type_))
        tables = address_of(self._table), address_of(self._head)
        self.form = np.array([len(schema), *tables, len(self._head), header[_LENGTH] // 8, body // 8], np.int64)

    def read(self, message: np.ndarray) -> pa.RecordBatch:
        return pa.ipc.read_record_batch(message, self.schema)

    def rows(self, message: np.ndarray) -> int:
        return int(message[self.form[ROWS]])

    def valid_at(self, message: np.ndarray, column: int) -> int:
        """Which byte of the message the column's validity begins with."""
        return 8 * len(self._head) + int(message[self._table[column, BUFFER]])

    def data_at(self, message: np.ndarray, column: int) -> int:
        buffer = self._table[column, BUFFER] + _BUFFER_WORDS * (_buffers(self._table[column, WIDTH]) - 1)
        return 8 * len(self._head) + int(message[buffer])

    def marks(self, message: np.ndarray) -> np.ndarray:
        """A row of bits, in words, a column."""
        words = (self.rows(message) + 63) // 64
        return message[len(message) - len(self._table) * words :].reshape(len(self._table), words)

    def marked(self, message: np.ndarray) -> dict[int, pa.Array]:
        """True where a value has a mark; by the column's place, only columns that have some."""
        marks, rows = self.marks(message), self.rows(message)
        return {at: _mask(rows, marks[at]) for at in np.flatnonzero(marks.any(axis=1)).tolist()}

    def subtract_nulls(self, message: np.ndarray, column: int, fewer: int) -> None:
        message[self._table[column, NODE] + _NULLS] -= fewer


def _mask(rows: int, bits: np.ndarray) -> pa.Array:
    return pa.Array.from_buffers(pa.bool_(), rows, [None, pa.py_buffer(bits)])


def _buffers(width: int) -> int:
    return 3 if width == LARGE else 2


def _width(type_: pa.DataType) -> int:
    return LARGE if pa.types.is_large_binary(type_) or pa.types.is_large_string(type_) else int(type_.bit_width)


def _table(message: bytes, at: int) -> tuple[dict[int, int], int]:
    """Places of the fields of the message's header, and of its body length."""
    fields = _fields(message, at)
    header = fields[_HEADER]
    return _fields(message, header + struct.unpack_from("<I", message, header)[0]), fields[_BODY_LENGTH]


def _fields(message: bytes, at: int) -> dict[int, int]:
    vtable = at - struct.unpack_from("<i", message, at)[0]
    (size,) = struct.unpack_from("<H", message, vtable)
    offsets = struct.unpack_from(f"<{(size - 4) // 2}H", message, vtable + 4)
    return {place: at + offset for place, offset in enumerate(offsets) if offset}


def _items(message: bytes, at: int) -> int:
    return int(at + struct.unpack_from("<I", message, at)[0] + 4)


@inlined
def lay_out(form: int, rows: int, places: np.ndarray) -> np.ndarray:
    """A message for so many rows, in which no value is null yet. `places` say of columns with offsets how many bytes
    they have, and afterwards of all columns where they lie."""
    columns, head_words, marks = field(form, COLUMNS), field(form, HEAD_WORDS), (rows + 63) // 64
    body_bytes = _place(form, rows, address(places))
    message = np.empty(head_words + body_bytes // 8 + columns * marks, np.int64)
    head = address(message)
    copy(head, field(form, HEAD_AT), 8 * head_words)
    set_field(head, field(form, ROWS), rows)
    set_field(head, field(form, BODY_BYTES), body_bytes)
    _say(form, rows, head, address(places))
    _zero(head + 8 * head_words + body_bytes, columns * marks)
    return message


@inlined
def _place(form: int, rows: int, places: int) -> int:
    """Where the buffers of each column begin, counted from the body's begin, and how many bytes it has."""
    at, zeros = 0, ABSENT
    for column in range(field(form, COLUMNS)):
        place, width = place_of(places, column), width_of(form, column)
        if width == LARGE and field(place, DATA_BYTES) == ABSENT:
            if zeros == ABSENT:
                zeros = at
                at += 8 * (rows + 1)
            set_field(place, VALID, zeros)
            set_field(place, OFFSETS, zeros)
            set_field(place, DATA, zeros)
            continue
        set_field(place, VALID, at)
        at += 8 * ((rows + 63) // 64)
        set_field(place, OFFSETS, at)
        if width == LARGE:
            at += 8 * (rows + 1)
        else:
            set_field(place, DATA_BYTES, (rows * width + 7) // 8)
        set_field(place, DATA, at)
        at += (field(place, DATA_BYTES) + 7) // 8 * 8
    return at


@inlined
def _say(form: int, rows: int, head: int, places: int) -> None:
    """Says in the head what stands in `places`, and makes addresses of them; zeros where bits are only ever added."""
    body, zeros = head + 8 * field(form, HEAD_WORDS), ABSENT
    for column in range(field(form, COLUMNS)):
        place, width = place_of(places, column), width_of(form, column)
        is_absent = width == LARGE and field(place, DATA_BYTES) == ABSENT
        node, buffer = _node(form, head, column), _buffer(form, head, column)
        set_field(node, 0, rows)
        set_field(node, _NULLS, 0)
        # No validity as long as nothing is null.
        _say_buffer(buffer, field(place, VALID), 0)
        if width == LARGE:
            buffer += 8 * _BUFFER_WORDS
            _say_buffer(buffer, field(place, OFFSETS), 8 * (rows + 1))
        _say_buffer(buffer + 8 * _BUFFER_WORDS, field(place, DATA), max(field(place, DATA_BYTES), 0))
        for which in (VALID, OFFSETS, DATA):
            set_field(place, which, body + field(place, which))
        valid = field(place, VALID)
        if is_absent:
            note_nulls(form, head, column, rows, rows)
            if valid != zeros:
                _zero(valid, rows + 1)
            zeros = valid
            continue
        _zero(valid, (rows + 63) // 64)
        if width == LARGE:
            set_field(field(place, OFFSETS), 0, 0)
        elif width == 1:
            _zero(field(place, DATA), (rows + 63) // 64)


@inlined
def _say_buffer(buffer: int, at: int, length: int) -> None:
    set_field(buffer, 0, at)
    set_field(buffer, 1, length)


@inlined
def _zero(at: int, words: int) -> None:
    for word in range(words):
        set_field(at, word, 0)


@inlined
def place_of(places: int, column: int) -> int:
    return row_of(places, column, PLACE_FIELDS)


@inlined
def width_of(form: int, column: int) -> int:
    return field(row_of(field(form, TABLE_AT), column, _COLUMN_FIELDS), WIDTH)


@inlined
def _node(form: int, head: int, column: int) -> int:
    return head + 8 * field(row_of(field(form, TABLE_AT), column, _COLUMN_FIELDS), NODE)


@inlined
def _buffer(form: int, head: int, column: int) -> int:
    return head + 8 * field(row_of(field(form, TABLE_AT), column, _COLUMN_FIELDS), BUFFER)


@inlined
def data_of(form: int, head: int, column: int) -> int:
    """Where a message's column of a fixed width stands."""
    return head + 8 * field(form, HEAD_WORDS) + field(_buffer(form, head, column), _BUFFER_WORDS)


@inlined
def read_place(form: int, head: int, column: int, place: int) -> None:
    """Of a message's column with offsets. Validity that does not count is at 0; ABSENT is what has no value."""
    body, buffer = head + 8 * field(form, HEAD_WORDS), _buffer(form, head, column)
    is_absent = field(_node(form, head, column), _NULLS) == field(head, field(form, ROWS))
    set_field(place, VALID, body + field(buffer, 0) if field(buffer, 1) else 0)
    set_field(place, OFFSETS, body + field(buffer, _BUFFER_WORDS))
    set_field(place, DATA, body + field(buffer, 2 * _BUFFER_WORDS))
    set_field(place, DATA_BYTES, ABSENT if is_absent else field(buffer, 2 * _BUFFER_WORDS + 1))


@inlined
def marks_of(form: int, message: np.ndarray, rows: int, column: int) -> int:
    behind = (field(form, COLUMNS) - column) * ((rows + 63) // 64)
    return address(message) + 8 * (len(message) - behind)


@inlined
def note_nulls(form: int, head: int, column: int, nulls: int, rows: int) -> None:
    """Of a column that has some: their number, and that its validity counts."""
    if nulls != 0:
        set_field(_node(form, head, column), _NULLS, nulls)
        set_field(_buffer(form, head, column), 1, 8 * ((rows + 63) // 64))


@inlined
def put_bit(bits: int, row: int) -> None:
    at = bits + (row >> 3)
    put(at, byte(at) | 1 << (row & 7))
