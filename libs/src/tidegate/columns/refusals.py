"""What becomes of changes that kernels refuse: the reference's errors, and what a dead letter needs."""

from dataclasses import dataclass

from tidegate.columns import layout
from tidegate.columns.envelopes import ROW_OPERATIONS
from tidegate.columns.frames import Changes
from tidegate.columns.layout import Refusal
from tidegate.columns.plans import Shape
from tidegate.errors import DecodeError, RecordError
from tidegate.events import Operation
from tidegate.lsn import Lsn
from tidegate.pgoutput.messages import Begin


@dataclass(frozen=True, slots=True)
class RejectedChange:
    """What a dead letter needs; `decode_message(raw)` is the change itself."""

    error: RecordError
    shape: Shape
    operation: Operation
    transaction: Begin
    ordinal: int
    lsn: Lsn
    raw: bytes


def rejected(changes: Changes, row: int, error: RecordError) -> RejectedChange:
    fields = changes.rows[row].tolist()
    xid, commit_lsn, commit_time = changes.transactions[fields[layout.TRANSACTION]].tolist()
    at = fields[layout.MESSAGE]
    return RejectedChange(
        error,
        changes.section.shapes[fields[layout.RELATION]],
        changes.operation or ROW_OPERATIONS[fields[layout.OPERATION]],
        Begin(_lsn(commit_lsn), commit_time, xid),
        fields[layout.ORDINAL] % 2**64,
        _lsn(fields[layout.LSN]),
        changes.body[at : at + fields[layout.LENGTH]].tobytes(),
    )


def _lsn(bits: int) -> Lsn:
    return Lsn(bits % 2**64)


def record_error(changes: Changes, row: int, refusal: int) -> RecordError:
    relation = changes.section.shapes[changes.rows[row, layout.RELATION]].relation
    name = f"{relation.schema}.{relation.name}"
    match Refusal(refusal):
        case Refusal.NOT_UTF8:
            return RecordError(
                f"a value in {name} that is not UTF-8",
                code="VALUE_NOT_UTF8",
                remedy="The database is SQL_ASCII, or holds text that is not of its encoding: mend it at the source.",
            )
        case Refusal.NOT_HEX:
            return RecordError(
                "a bytea value that is not in hex form",
                code="VALUE_BYTEA_FORMAT",
                remedy="The source session must pin bytea_output=hex: check that no pooler in between resets it.",
            )
        case Refusal.KEY_NOT_SENT:
            return RecordError(
                f"a key column of {name} was not sent",
                code="KEY_NOT_SENT",
                remedy="Update the server: recent minor releases send a TOASTed key with the old row.",
            )
        case _:
            return RecordError(
                f"a value in {name} in binary form",
                code="VALUE_BINARY",
                remedy="Set the reader's stream option binary to false and re-feed.",
            )


def decode_error(changes: Changes, row: int, refusal: Refusal) -> DecodeError:
    at = int(changes.rows[row, layout.MESSAGE])
    match refusal:
        case Refusal.ROW_WIDTH:
            return DecodeError(
                "a row with another number of columns than its relation", offset=at, code="DECODE_ROW_WIDTH"
            )
        case Refusal.INSERT_UNCHANGED:
            reason = "a new row with values that were not sent"
            return DecodeError(reason, offset=at, code="DECODE_INSERT_UNCHANGED")
        case _:
            return DecodeError("a commit time outside the years 1 to 9999", offset=at, code="DECODE_TIME_RANGE")
