"""Cursors: as they are, of a lane that was rewound, has several writers, or refuses a shape; and acks."""

from collections.abc import Callable
from dataclasses import replace

from tidegate.contracts.ack import Ack, decode_ack
from tidegate.contracts.cursor import Cursor, decode_cursor
from tidegate.contracts.missed import Missed
from tidegate.contracts.refused_shape import RefusedShape
from tidegate.lsn import Lsn
from tidegate.position import Position

Parts = tuple[object, bytes, Callable[[bytes], object]]

REFUSED = (
    RefusedShape(
        "0f1e2d3c4b5a6978",
        "8796a5b4c3d2e1f0",
        ("column_added", "type_changed"),
        Position(Lsn(0x16B3000), 2),
        Position(Lsn(0x16B3400), 0),
    ),
)


def cursor_examples(cursor: Cursor) -> dict[str, Parts]:
    named = {
        "cursor.json": cursor,
        "cursor-rewound.json": replace(cursor, rewound_from=Position(cursor.safe_lsn, 0)),
        "cursor-rewound-epoch.json": replace(cursor, rewound_epoch=cursor.epoch + 1),
        "cursor-writers.json": replace(cursor, writers=4),
        "cursor-refusing.json": replace(cursor, refused=REFUSED),
        "cursor-missed.json": replace(cursor, missed=Missed(12, 4096)),
    }
    return {name: (each, each.encode().encode(), _decoded) for name, each in named.items()}


def ack_examples(ack: Ack) -> dict[str, Parts]:
    def decoded(value: bytes) -> Ack:
        return decode_ack(value, sink=ack.sink, generation=ack.generation)

    named = {
        "ack.json": ack,
        "ack-refusing.json": replace(ack, refused=REFUSED),
        "ack-missed.json": replace(ack, missed=Missed(12, 4096)),
    }
    return {name: (each, each.encode(), decoded) for name, each in named.items()}


def _decoded(value: bytes) -> Cursor:
    return decode_cursor(value.decode("latin1"))
