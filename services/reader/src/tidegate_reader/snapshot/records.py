"""What is durable about snapshots, in the compacted topic: what was asked for, and how far each table is.

Invariant: a record never claims more than is durable in the raw topic, so believing it after any crash leaves no gap.
It holds no value of a row.
"""

import json
from dataclasses import asdict, dataclass, field, replace

from tidegate.contracts.document import build, load
from tidegate.contracts.snapshot_request import Comparison, RowFilter
from tidegate.contracts.snapshot_status import SnapshotKind, SnapshotState
from tidegate.errors import DecodeError, TidegateError
from tidegate_reader.snapshot.pages import Heap, is_older

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRecord:
    id: str
    kind: SnapshotKind
    state: SnapshotState
    by: str
    requested: int
    epoch: int = 0
    """In which it was asked for by the configuration."""
    priority: int = 0
    tables: tuple[str, ...] = ()
    filters: tuple[RowFilter, ...] = ()
    started: int = 0
    finished: int = 0
    has_plan: bool = False
    """The records of its tables are there: what is published later is not part of it."""
    topic_id: str = ""
    """Of the raw topic that its rows went to."""
    first_offset: int = 0
    """All of its rows stand behind it."""
    end_offset: int = 0
    """Of its last frame, once it is over."""
    is_delivered: bool = False
    """Every required sink has acked it."""
    tables_done: int = 0
    tables_planned: int = 0
    rows: int = 0
    size: int = 0
    code: str = ""
    message: str = ""
    remedy: str = ""
    reason: str = ""
    """Why all tables are read again; empty if nothing was lost."""
    is_announced: bool = False
    """The gap it is for is in an epoch frame. Until then no epoch may begin that does not announce it."""

    def encode(self) -> bytes:
        listed = {"tables": list(self.tables), "filters": [asdict(each) for each in self.filters]}
        return _encode(asdict(self) | listed | {"version": VERSION})


@dataclass(slots=True, kw_only=True)
class TableRecord:
    snapshot: str
    relation_id: int
    schema: str
    table: str
    state: SnapshotState
    heaps: list[Heap]
    has_key: bool
    horizon: str = ""
    """Oldest transaction that any of its readings may not have contained, once one has begun: whichever of several
    connections saw less counts, not the one that was first to say so. The lower half of its number."""
    rows: int = 0
    size: int = 0
    estimated_rows: int = 0
    is_one_reading: bool = True
    """All that was read so far is of one snapshot."""
    tells_updates: bool = True
    """The stream has those that move its rows."""
    moved: list[int] = field(default_factory=list)
    """Heaps of which the rows that moved meanwhile have been read, too."""

    def note_reading(self, xmin: int, *, is_exported: bool) -> None:
        """Before its rows are sent, so that no record tells of pages that the horizon does not cover."""
        if self.horizon and not is_exported:
            self.is_one_reading = False
        if not self.horizon or is_older(xmin, int(self.horizon)):
            self.horizon = str(xmin)

    def heap(self, oid: int) -> Heap:
        return next(heap for heap in self.heaps if heap.oid == oid)

    def encode(self) -> bytes:
        document = asdict(self)
        for heap in document["heaps"]:
            del heap["taken"], heap["is_moving"], heap["passing"], heap["long_tries"]
        return _encode(document | {"version": VERSION})


def snapshot_key(generation: str, snapshot: str) -> bytes:
    return f"{generation}:{snapshot}".encode()


def table_key(generation: str, snapshot: str, relation_id: int) -> bytes:
    return f"{generation}:{snapshot}:{relation_id}".encode()


def decode_snapshot_record(value: bytes) -> SnapshotRecord:
    document = _load(value)
    try:
        filters = document["filters"]
        members = document | {
            "kind": SnapshotKind(str(document["kind"])),
            "state": SnapshotState(str(document["state"])),
            "tables": tuple(document["tables"]),  # type: ignore[arg-type]
            "filters": tuple(_filter(each) for each in filters),  # type: ignore[attr-defined]
        }
        return build(SnapshotRecord, members)
    except (ValueError, KeyError, TypeError):
        raise _malformed() from None


def decode_table_record(value: bytes) -> TableRecord:
    document = _load(value)
    try:
        heaps = [_heap(each) for each in document["heaps"]]  # type: ignore[attr-defined]
        moved: list[int] = document["moved"]  # type: ignore[assignment]
        members = document | {"state": SnapshotState(str(document["state"])), "heaps": (), "moved": ()}
        known = {name: value for name, value in members.items() if name in TableRecord.__dataclass_fields__}
        return TableRecord(**(known | {"heaps": heaps, "moved": list(moved)}))  # type: ignore[arg-type]
    except (ValueError, KeyError, TypeError):
        raise _malformed() from None


def over(record: SnapshotRecord, state: SnapshotState, now: int) -> SnapshotRecord:
    return replace(record, state=state, finished=now)


def failed(record: SnapshotRecord, error: TidegateError, now: int) -> SnapshotRecord:
    """Until a person lets it go on."""
    record = over(record, SnapshotState.FAILED, now)
    return replace(record, code=error.code, message=error.message, remedy=error.remedy)


def gone_on(record: SnapshotRecord) -> SnapshotRecord:
    """What it had sent until it was stopped may be with the sinks; what comes now is not."""
    return replace(record, state=SnapshotState.RUNNING, end_offset=0, is_delivered=False)


def unread(record: SnapshotRecord) -> SnapshotRecord:
    """Nothing of it has been read. If a person has to let it go on, that stays so."""
    record = replace(record, has_plan=False, end_offset=0, topic_id="")
    if record.state in (SnapshotState.PAUSED, SnapshotState.FAILED):
        return record
    return replace(record, state=SnapshotState.WAITING, finished=0)


def _heap(members: object) -> Heap:
    if not isinstance(members, dict):
        raise ValueError("not a heap")
    done = [(int(start), int(end)) for start, end in members["done"]]
    known = {name: members[name] for name in ("oid", "schema", "name", "filenode", "pages", "has_toast")}
    return Heap(**known, done=done, taken=list(done), since=str(members.get("since", "")))


def _filter(members: object) -> RowFilter:
    if not isinstance(members, dict):
        raise ValueError("not a filter")
    return build(RowFilter, members | {"comparison": Comparison(str(members["comparison"]))})


def _load(value: bytes) -> dict[str, object]:
    try:
        document = load(value)
    except ValueError:
        raise _malformed() from None
    if document.get("version") != VERSION:
        raise _malformed()
    return document


def _malformed() -> DecodeError:
    return DecodeError("this is not a record of the snapshots topic", code="SNAPSHOT_RECORD_MALFORMED")


def _encode(document: dict[str, object]) -> bytes:
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()
