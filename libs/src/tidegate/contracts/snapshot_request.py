"""What a person asks about snapshots, through the admin API: one sealed value a request, done by the reader.

Invariant: a filter is a comparison of one column with one text, never SQL; the reader quotes both.
"""

import re
from dataclasses import asdict, dataclass
from enum import StrEnum

from tidegate.contracts.document import build
from tidegate.contracts.sealed import seal, unseal
from tidegate.errors import DecodeError

MOST_TABLES = 1000
MOST_FILTERS = 100
MOST_PRIORITY = 100
_PART = r'(?:"((?:[^"\x00]|"")+)"|([^\s"\x00.,]+))'
_NAME = re.compile(rf"{_PART}\.{_PART}")
_PLAIN = re.compile(r'[^\s"\x00.,*]+')
_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)


class SnapshotAsked(StrEnum):
    START = "start"
    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    """What has been read stays where it is; nothing more is read."""


class Comparison(StrEnum):
    EQUAL = "="
    NOT_EQUAL = "!="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    IS_NULL = "is null"
    IS_NOT_NULL = "is not null"

    @property
    def takes_value(self) -> bool:
        return self not in (Comparison.IS_NULL, Comparison.IS_NOT_NULL)


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Rows for which the comparison is true; several filters of one table must all be."""

    table: str
    """`schema.table`, as in the request's tables."""
    column: str
    comparison: Comparison
    value: str | None = None
    """Read by the column's type, as a literal in SQL is."""


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    id: str
    """32 hexadecimal digits, drawn by whoever asks; the same id twice is one request. A start's is the snapshot's."""
    asked: SnapshotAsked
    by: str
    time: int
    """Unix microseconds."""
    snapshot: str = ""
    """Which one, of all but a start."""
    tables: tuple[str, ...] = ()
    """Of a start: `schema.table`, quoted where a pattern would be; none means all that are published."""
    filters: tuple[RowFilter, ...] = ()
    priority: int = 0
    """Of a start: the highest is read first, then the oldest."""

    def encode(self) -> bytes:
        return seal(asdict(self) | {"tables": list(self.tables), "filters": [asdict(each) for each in self.filters]})


def decode_snapshot_request(value: bytes) -> SnapshotRequest:
    document = unseal(value)
    try:
        tables, filters = document["tables"], document["filters"]
        if not isinstance(tables, list) or len(tables) > MOST_TABLES or not all(isinstance(t, str) for t in tables):
            raise ValueError("not tables")
        if not isinstance(filters, list) or len(filters) > MOST_FILTERS:
            raise ValueError("not filters")
        request = build(
            SnapshotRequest,
            document
            | {
                "asked": SnapshotAsked(str(document["asked"])),
                "tables": tuple(tables),
                "filters": tuple(map(_filter, filters)),
            },
        )
        _check(request)
        return request
    except (KeyError, ValueError, TypeError):
        raise DecodeError("this is not a request about snapshots", code="SNAPSHOT_REQUEST_MALFORMED") from None


def identity_of(value: bytes) -> str | None:
    """Of a request that may be none: whom an answer is for."""
    try:
        identity = unseal(value).get("id")
    except DecodeError:
        return None
    return identity if isinstance(identity, str) and _ID.fullmatch(identity) else None


def split_table(name: str) -> tuple[str, str]:
    """Schema and table; ValueError if it is not one."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError("not schema.table")
    schema, table = match[1] or match[2], match[3] or match[4]
    return schema.replace('""', '"'), table.replace('""', '"')


def join_table(schema: str, table: str) -> str:
    """As `split_table` reads it: quoted where it has to be."""
    return ".".join(part if _PLAIN.fullmatch(part) else '"' + part.replace('"', '""') + '"' for part in (schema, table))


def _filter(members: object) -> RowFilter:
    if not isinstance(members, dict):
        raise ValueError("not a filter")
    value = members.get("value")
    comparison = Comparison(str(members["comparison"]))
    if not isinstance(value, str | None) or comparison.takes_value != (value is not None):
        raise ValueError("a value too many or too few")
    given = {name: members[name] for name in ("table", "column")} | {"comparison": comparison}
    return build(RowFilter, given | ({} if value is None else {"value": value}))


def _check(request: SnapshotRequest) -> None:
    is_start = request.asked is SnapshotAsked.START
    if not _ID.fullmatch(request.id) or bool(request.snapshot) == is_start:
        raise ValueError("a start has its own id, all others name a snapshot")
    if not is_start and (request.tables or request.filters):
        raise ValueError("tables and filters are a start's")
    named = set(map(split_table, request.tables))
    if any(split_table(each.table) not in named for each in request.filters):
        raise ValueError("a filter of a table that is not listed")
    if not -MOST_PRIORITY <= request.priority <= MOST_PRIORITY:
        raise ValueError("no such priority")
