"""The tables through which kernels and Python speak: what stands in which column.

All are arrays of 64-bit integers, one row a thing, so that a kernel takes few arguments and a change lies in one cache
line. LSNs and ordinals are unsigned and stored by their bits.
"""

from enum import IntEnum
from typing import Final

# A change: one row operation, one relation of a truncate, or one logical message.
OPERATION: Final = 0
RELATION: Final = 1
"""Index among the frame's relations; NONE for a logical message."""
TRANSACTION: Final = 2
ORDINAL: Final = 3
LSN: Final = 4
MESSAGE: Final = 5
"""Offset of the message in the body, behind its length and LSN."""
LENGTH: Final = 6
NEW: Final = 7
"""Offset of the new tuple, or NONE. In a truncate: the change's place among its relations."""
OLD: Final = 8
OLD_KIND: Final = 9
"""`K`, `O`, or 0. In a truncate: its options."""
WHOLE: Final = ord("O")
"""Of these: all of the old row was sent."""
FLAGS: Final = 10
CHANGE_FIELDS: Final = 11

NONE: Final = -1

HAS_UNCHANGED: Final = 1
HAS_BINARY: Final = 2

# A transaction.
XID: Final = 0
COMMIT_LSN: Final = 1
COMMIT_TIME: Final = 2
TRANSACTION_FIELDS: Final = 3

# The smallest of each with the twelve bytes before it: so many can a body hold at most.
ENTRY_HEAD: Final = 12
SMALLEST_ROW: Final = ENTRY_HEAD + 8
SMALLEST_BEGIN: Final = ENTRY_HEAD + 21

INSERT: Final = 0
UPDATE: Final = 1
DELETE: Final = 2
TRUNCATE: Final = 3
MESSAGE_ROW: Final = 4
OPERATIONS: Final = 4
"""Those that a relation can have."""

# Inside a tuple once it is located: the length of a value, or one of these.
NULL: Final = -1
UNCHANGED: Final = -2
BINARY: Final = -3
"""Less its length: -3 is an empty one, -4 one of a byte."""

# A relation as the event kernel needs it.
COLUMNS_FROM: Final = 0
COLUMNS: Final = 1
KEYS_FROM: Final = 2
KEYS: Final = 3
BOUND: Final = 4
"""No event of this relation is larger than this and what its values can grow to."""
PROGRAMS_FROM: Final = 5
"""First step for each operation; one number more is the end of the last."""
RELATION_FIELDS: Final = PROGRAMS_FROM + OPERATIONS + 1

# A column, and a key column.
NAME_AT: Final = 0
"""Piece `,"name":`"""
NAME_LENGTH: Final = 1
FORM: Final = 2
KEY_FORM: Final = 3
IS_KEY: Final = 4
COLUMN_FIELDS: Final = 5

# Where the values of a change's two tuples stand: addresses and lengths. The old ones are OLD_SIDE fields on.
VALUE: Final = 0
LENGTH_OF: Final = 1
OLD_SIDE: Final = 2
VALUE_FIELDS: Final = 4

# A step of an envelope: a constant piece, then what differs.
PIECE_AT: Final = 0
PIECE_LENGTH: Final = 1
SLOT: Final = 2
STEP_FIELDS: Final = 3


class Slot(IntEnum):
    """What an envelope says of a change between its constant pieces."""

    END = 0
    ID = 1
    ROW = 2
    OLD = 3
    UNCHANGED = 4
    CASCADE = 5
    COMMIT_LSN = 6
    ORDINAL = 7
    SEQUENCE = 8
    LSN = 9
    COMMIT_TIME = 10
    XID = 11
    RESTART_IDENTITY = 12
    ROW_MARKED = 13
    """The row with a text in place of what was not sent, as Debezium has it."""
    COMMIT_MS = 14
    """The commit time since 1970, here in milliseconds."""
    COMMIT_US = 15
    COMMIT_NS = 16
    LSN_NUMBER = 17
    COMMIT_LSN_NUMBER = 18
    ROW_ORDINAL = 19
    """Of a row of a snapshot."""


# An event: where its key and its value stand in the buffer, and the change it is of.
KEY_AT: Final = 0
KEY_LENGTH: Final = 1
"""NONE if it has no key."""
VALUE_AT: Final = 2
VALUE_LENGTH: Final = 3
CHANGE: Final = 4
EVENT_FIELDS: Final = 5


# Of the events of a topic.
EVENTS: Final = 0
VALUE_BYTES: Final = 1
LARGEST: Final = 2
"""Bytes of key and value."""
KEYLESS: Final = 3
TALLY_FIELDS: Final = 4

# Addresses of what is known of a frame's relations: rows by relation, then the tables that these rows point into, and
# scratch for the values of one change.
RELATIONS_AT: Final = 0
TOPICS_AT: Final = 1
COLUMNS_AT: Final = 2
KEYS_AT: Final = 3
STEPS_AT: Final = 4
PIECES_AT: Final = 5
VALUES_AT: Final = 6


class Refusal(IntEnum):
    """Why a change is no event. The first four concern it alone, the others the stream."""

    NOT_UTF8 = -1
    NOT_HEX = -2
    KEY_NOT_SENT = -4
    BINARY_VALUE = -5
    ROW_WIDTH = -6
    INSERT_UNCHANGED = -7
    TIME_RANGE = -8


class Verdict(IntEnum):
    """How a pass over a body ended."""

    DONE = 0
    MALFORMED = 1
    """The message at this offset is none."""
    CUT_SHORT = 2
    """An entry does not end inside the body."""
    NO_TRANSACTION = 3
    UNKNOWN_RELATION = 4
    NO_ROOM = 5
    """A table is full: the caller makes a larger one."""
