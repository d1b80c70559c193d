"""One value of every contract about snapshots that is no frame; see contract_examples."""

from collections.abc import Callable

from tidegate.contracts.snapshot_request import (
    Comparison,
    RowFilter,
    SnapshotAsked,
    SnapshotRequest,
    decode_snapshot_request,
)
from tidegate.contracts.snapshot_status import (
    SnapshotKind,
    SnapshotState,
    SnapshotStatus,
    TableStatus,
    decode_snapshot_status,
    decode_table_status,
)

CREATED = 1_767_225_600_250_000
ID = "0b6cf5a8e0f24bd19f0c8a1f0e6f9a11"
START = SnapshotRequest(
    ID,
    SnapshotAsked.START,
    "somebody",
    CREATED,
    tables=("public.orders", '"Odd Schema"."odd.table"'),
    filters=(
        RowFilter("public.orders", "id", Comparison.GREATER_OR_EQUAL, "1000"),
        RowFilter("public.orders", "note", Comparison.IS_NOT_NULL),
    ),
    priority=5,
)
PAUSE = SnapshotRequest("6f1ed002ab594f5c9e5f3b1f1b6f0a4e", SnapshotAsked.PAUSE, "somebody", CREATED, snapshot=ID)
STATUS = SnapshotStatus(
    id=ID,
    kind=SnapshotKind.REQUESTED,
    state=SnapshotState.RUNNING,
    by="somebody",
    requested=CREATED,
    started=CREATED + 1_000_000,
    time=CREATED + 61_000_000,
    priority=5,
    tables=2,
    tables_done=1,
    rows=120_000,
    bytes=9_600_000,
    percent=42.5,
    rows_per_second=2_000.0,
    bytes_per_second=160_000.0,
    seconds_left=81.0,
    transaction_seconds=1.5,
)
TABLE = TableStatus(
    schema="public",
    table="orders",
    state=SnapshotState.RUNNING,
    rows=120_000,
    bytes=9_600_000,
    estimated_rows=280_000,
    percent=42.5,
    rows_per_second=2_000.0,
    bytes_per_second=160_000.0,
    seconds_left=81.0,
    note="no key: rows inserted meanwhile may come twice",
)

DOCUMENTS: dict[str, tuple[object, bytes, Callable[[bytes], object]]] = {
    "snapshot-request.json": (START, START.encode(), decode_snapshot_request),
    "snapshot-request-pause.json": (PAUSE, PAUSE.encode(), decode_snapshot_request),
    "snapshot-status.json": (STATUS, STATUS.encode(), decode_snapshot_status),
    "snapshot-table-status.json": (TABLE, TABLE.encode(), decode_table_status),
}
