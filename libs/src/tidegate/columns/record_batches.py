"""Record batches by one call: kernels write Arrow's own message (IPC), and Arrow reads it where it lies.

    message                                                    body
    | length | metadata: rows, nodes, buffers, body length |   validity, offsets, data of the first column, … |

To make an array object a column costs microseconds each, a hundred for a batch of one row. So the message of a schema
is made once, by Arrow itself, and of each batch only numbers in it differ: rows, nulls, and where the buffers lie.

Invariant: only flat columns, of a fixed width or with offsets of 64 bits; every buffer begins at a multiple of eight.
"""

import struct

import numpy as np
import pyarrow as pa

from tidegate.columns.compiled import inlined, kernel
from tidegate.columns.memory import byte, put, set_field

LARGE = -1
"""In place of a width in bits: offsets and data."""

# Of a column in `places`: where its buffers lie, and how many bytes of data it has room for.
VALID, OFFSETS, DATA, DATA_BYTES = range(4)
PLACE_FIELDS = 4

_NODE_WORDS = _BUFFER_WORDS = 2
# Columns without any value share one run of zeros for validity and offsets.
ABSENT = -1

# Flatbuffers (Message.fbs): fields of Message and RecordBatch by their place in the table.
_HEADER, _BODY_LENGTH = 2, 3
_LENGTH, _NODES, _BUFFERS = 0, 1, 2
_PREAMBLE = 8


class BatchLayout:
    """Of one schema: the message, as words, and the places of its numbers."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.widths = np.array([_width(each) for each in schema.types], np.int64)
        rows = pa.RecordBatch.from_arrays([pa.nulls(1, each) for each in schema.types], schema=schema)
        message = rows.serialize().to_pybytes()
        (metadata,) = struct.unpack_from("<i", message, 4)
        self.prefix = np.frombuffer(message[: _PREAMBLE + metadata], np.int64)
        header, body = _table(message, _PREAMBLE + struct.unpack_from("<I", message, _PREAMBLE)[0])
        numbers = [body, header[_LENGTH], *(_items(message, header[each]) for each in (_NODES, _BUFFERS))]
        self.numbers = np.array([number // 8 for number in numbers], np.int64)

    def empty(self, rows: int, data_bytes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A message for so many rows, without values, and the places of its columns.

        `data_bytes` of the last columns, as many as it has: of one with offsets; below zero if it has no value at all.
        """
        places, words = self.places(), self.prefix.copy()
        total = lay_out(self.widths, data_bytes, rows, words, self.numbers, places)
        message = np.empty(total, np.int64)
        message[: len(words)] = words
        return message, places

    def places(self) -> np.ndarray:
        return np.empty((len(self.widths), PLACE_FIELDS), np.int64)

    def rows(self, message: np.ndarray) -> int:
        return int(message[self.numbers[1]])

    def read(self, message: np.ndarray) -> pa.RecordBatch:
        return pa.ipc.read_record_batch(pa.py_buffer(message), self.schema)


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


@kernel
def lay_out(
    widths: np.ndarray,
    data_bytes: np.ndarray,
    rows: int,
    words: np.ndarray,
    numbers: np.ndarray,
    places: np.ndarray,
) -> int:
    """Fills in what the message says of its buffers, as if no value were null. Returns its length in words."""
    body_length, length, nodes, buffers = numbers
    valid_words, offset_words = (rows + 63) // 64, rows + 1
    begin = at = len(words)
    first = len(widths) - len(data_bytes)
    zeros = ABSENT
    buffer = buffers
    for column in range(len(widths)):
        node = nodes + _NODE_WORDS * column
        words[node], words[node + 1] = rows, 0
        is_large = widths[column] == LARGE
        is_absent = is_large and data_bytes[column - first] < 0
        if is_absent and zeros != ABSENT:
            places[column, VALID] = places[column, OFFSETS] = places[column, DATA] = 8 * zeros
        else:
            if is_absent:
                zeros = at
            places[column, VALID], places[column, OFFSETS] = 8 * at, ABSENT
            at += 0 if is_absent else valid_words
            if is_large:
                places[column, OFFSETS] = 8 * at
                at += offset_words
            places[column, DATA] = 8 * at
        if is_absent:
            places[column, DATA_BYTES] = 0
            words[node + 1] = rows
        elif is_large:
            places[column, DATA_BYTES] = data_bytes[column - first]
        else:
            places[column, DATA_BYTES] = (rows * widths[column] + 7) // 8
        at += (places[column, DATA_BYTES] + 7) // 8
        # No validity as long as nothing is null.
        words[buffer] = places[column, VALID] - 8 * begin
        words[buffer + 1] = 8 * valid_words if is_absent else 0
        buffer += _BUFFER_WORDS
        if is_large:
            words[buffer] = places[column, OFFSETS] - 8 * begin
            words[buffer + 1] = 8 * offset_words
            buffer += _BUFFER_WORDS
        words[buffer] = places[column, DATA] - 8 * begin
        words[buffer + 1] = places[column, DATA_BYTES]
        buffer += _BUFFER_WORDS
    words[length], words[body_length] = rows, 8 * (at - begin)
    return at


@inlined
def clear(message: int, places: np.ndarray, widths: np.ndarray, rows: int) -> None:
    """Zeros where values are only ever added to: validity and bits; and the first offset, and those that are shared."""
    for column in range(len(widths)):
        if column and places[column, VALID] == places[column - 1, VALID]:
            continue
        words = (rows + 63) // 64
        if widths[column] == LARGE and places[column, VALID] == places[column, OFFSETS]:
            words = rows + 1
        for word in range(words):
            set_field(message + places[column, VALID], word, 0)
        if widths[column] == 1:
            for word in range(words):
                set_field(message + places[column, DATA], word, 0)
        if widths[column] == LARGE:
            set_field(message + places[column, OFFSETS], 0, 0)


@inlined
def note_nulls(message: int, numbers: np.ndarray, widths: np.ndarray, column: int, nulls: int, rows: int) -> None:
    """Of a column that has some: their number, and that its validity counts."""
    if nulls == 0:
        return
    set_field(message, numbers[2] + _NODE_WORDS * column + 1, nulls)
    buffer = numbers[3]
    for before in range(column):
        buffer += _BUFFER_WORDS * (3 if widths[before] == LARGE else 2)
    set_field(message, buffer + 1, 8 * ((rows + 63) // 64))


@inlined
def put_bit(bits: int, row: int) -> None:
    at = bits + (row >> 3)
    put(at, byte(at) | 1 << (row & 7))


def subtract_nulls(message: np.ndarray, numbers: np.ndarray, column: int, fewer: int) -> None:
    message[numbers[2] + _NODE_WORDS * column + 1] -= fewer
