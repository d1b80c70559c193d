"""Debezium's and CloudEvents' envelopes of a change, written plainly: what the kernel's programs are compared with."""

import json
from collections.abc import Callable
from typing import Any

from kit.plain_cells import CELLS, Beyond

from tidegate.columns.cast_kernels import Cell
from tidegate.columns.casts import Cast, cast_of
from tidegate.events import POSTGRES_EPOCH_UNIX_US, Operation, event_id, format_time
from tidegate.lsn import format_lsn
from tidegate.pgoutput.messages import UNCHANGED, Column, OldKind, Truncate
from tidegate.pgoutput.types import array_type, base_oid
from tidegate_processor.decode import Change, Shape
from tidegate_processor.encodings.arrays import array_json
from tidegate_processor.encodings.values import column_value

LETTERS = {Operation.INSERT: "c", Operation.UPDATE: "u", Operation.DELETE: "d", Operation.TRUNCATE: "t"}
_DATE, _TIME, _TIMESTAMP = 1082, 1083, 1114


def debezium(change: Change, shape: Shape, pipeline: str, database: str) -> bytes:
    relation, message = shape.relation, change.message
    microseconds = change.transaction.commit_time + POSTGRES_EPOCH_UNIX_US
    times = {"ts_ms": microseconds // 1000, "ts_us": microseconds, "ts_ns": microseconds * 1000}
    rows: dict[str, Any] = {}
    if not isinstance(message, Truncate):
        old, new = _sides(message, shape)
        rows = {"before": _row(old, shape, None), "after": _row(new, shape, '"__debezium_unavailable_value"')}
    source = {
        "version": "tidegate",
        "connector": "postgresql",
        "name": pipeline,
        **times,
        "snapshot": "false",
        "db": database,
        "sequence": json.dumps([str(int(change.transaction.commit_lsn)), str(int(change.lsn))], separators=(",", ":")),
        "schema": relation.schema,
        "table": relation.name,
        "txId": change.transaction.xid,
        "lsn": int(change.lsn),
        "xmin": None,
    }
    return _object({**rows, "source": source, "transaction": None, "op": LETTERS[change.operation], **times})


def cloudevent(change: Change, shape: Shape, system_id: int, source: str) -> bytes:
    relation, message, begin = shape.relation, change.message, change.transaction
    sub = message.relation_ids.index(relation.relation_id) if isinstance(message, Truncate) else 0
    time = format_time(begin.commit_time)
    identity = event_id(
        system_id=system_id,
        commit_lsn=begin.commit_lsn,
        xid=begin.xid,
        commit_time=begin.commit_time,
        ordinal=change.ordinal,
        sub=sub,
    )
    old, new = (None, None) if isinstance(message, Truncate) else _sides(message, shape)
    names = [column.name for column, value in zip(relation.columns, new or (), strict=bool(new)) if value is UNCHANGED]
    data: dict[str, Any] = {
        "op": LETTERS[change.operation],
        "schema": relation.schema,
        "table": relation.name,
        "row": _row(new, shape, None, own=False),
        "old": _row(old, shape, None, own=False),
        "unchanged": names,
    }
    if isinstance(message, Truncate):
        data["options"] = {"cascade": message.cascade, "restart_identity": message.restart_identity}
    data["position"] = {
        "commit_lsn": format_lsn(begin.commit_lsn),
        "ordinal": change.ordinal,
        "lsn": format_lsn(change.lsn),
    }
    data["transaction"] = {"xid": begin.xid, "commit_time": time}
    return _object(
        {
            "specversion": "1.0",
            "id": identity,
            "source": source,
            "type": f"dev.tidegate.change.{change.operation.lower()}",
            "subject": f"{relation.schema}.{relation.name}",
            "time": time,
            "datacontenttype": "application/json",
            "data": data,
        }
    )


class _Raw(str):
    """Already JSON."""


def _object(value: Any) -> bytes:
    return _dumped(value).encode("utf-8", "surrogateescape")


def _dumped(value: Any) -> str:
    if isinstance(value, _Raw):
        return value
    if isinstance(value, dict):
        return "{" + ",".join(f"{_dumped(name)}:{_dumped(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_dumped, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _sides(message: Any, shape: Shape) -> tuple[Any, Any]:
    """Old and new; UNCHANGED is what is not there."""
    new, old = getattr(message, "new", None), getattr(message, "old", None)
    if old is not None and message.old_kind is OldKind.KEY:
        old = tuple(v if c.is_key else UNCHANGED for v, c in zip(old, shape.relation.columns, strict=True))
    if new is not None and old is not None:
        new = tuple(o if n is UNCHANGED else n for n, o in zip(new, old, strict=True))
    return old, new


def _row(row: Any, shape: Shape, mark: str | None, *, own: bool = True) -> Any:
    if row is None:
        return None
    found = []  # not a dict: generated relations have columns of one name
    for value, column in zip(row, shape.relation.columns, strict=True):
        if value is not UNCHANGED:
            found.append(f"{_dumped(column.name)}:{'null' if value is None else _text(value, column, shape, own)}")
        elif mark is not None:
            found.append(f"{_dumped(column.name)}:{mark}")
    return _Raw("{" + ",".join(found) + "}")


def _text(value: bytes, column: Column, shape: Shape, own: bool) -> str:
    oid = base_oid(column.type_oid, shape.types)
    array = array_type(oid)
    special = _own(oid if array is None else array.element_oid, column.typmod) if own else None
    if special is None:
        made = column_value(Column(column.flags, column.name, oid, column.typmod))(value)
    elif array is None:
        made = special(value)
    else:
        made = array_json(value, special, array.delimiter) or json.dumps(value.decode(), ensure_ascii=False).encode()
    return made.decode("utf-8", "surrogateescape")


def _own(oid: int, typmod: int) -> Callable[[bytes], bytes] | None:
    if oid in (114, 3802):
        return lambda value: json.dumps(value.decode(), ensure_ascii=False).encode()
    if oid not in (_DATE, _TIME, _TIMESTAMP):
        return None
    cast = cast_of(oid, -1, {})
    divisor = 1000 if oid != _DATE and 0 <= typmod <= 3 else 1
    return lambda value: _number(value, cast, divisor)


def _number(value: bytes, cast: Cast, divisor: int) -> bytes:
    assert cast.cell in (Cell.DATE, Cell.TIME, Cell.TIMESTAMP)
    try:
        return b"%d" % (CELLS[cast.cell](value, cast) // divisor)
    except (Beyond, UnicodeDecodeError):
        return json.dumps(value.decode(), ensure_ascii=False).encode()
