"""How tables that were there before are read. The reader does it; what a person asks for follows the same limits."""

from datetime import timedelta

from pydantic import Field

from tidegate.config.base import Duration, Model, Size, size
from tidegate.config.values import SnapshotMode

MOST_CONNECTIONS = 16


class SnapshotConfig(Model):
    mode: SnapshotMode = Field(
        SnapshotMode.NEVER,
        description="`never`: only on request. `initial`: once, before the stream where the slot is made by the reader,"
        " beside it else. `initial_only`: the same, then the reader ends with exit code 0, and so does each further"
        " start; its slot stays and keeps WAL until it is dropped, or the reader is started in another mode and goes on"
        " there. `always`: at every start of the reader.",
    )
    connections: int = Field(2, ge=1, le=MOST_CONNECTIONS, description="How many connections read at a time.")
    range: Size = Field(
        size("64MiB"),
        ge=2**20,
        le=2**36,
        description="How much of a table is read in one piece before the stream: what a crash costs, a connection.",
    )
    transaction: Duration = Field(
        timedelta(seconds=2),
        ge=timedelta(milliseconds=100),
        le=timedelta(minutes=10),
        description="How long one piece may take beside the stream: its size follows from that.",
    )
    max_transaction_age: Duration = Field(
        timedelta(hours=1),
        ge=timedelta(seconds=1),
        description="How long a transaction may read, because nothing that it sees can be vacuumed: the snapshot before"
        " the stream is given up when it is older, and what is left is read beside the stream; a piece there is read"
        " again, smaller. A table without a replica identity is one piece there: if it takes longer, the snapshot fails"
        " at once, for it would take as long again.",
    )
    max_rows_per_second: int | None = Field(None, ge=1, description="Read no faster. Default: no limit.")
    max_bytes_per_second: Size | None = Field(None, ge=1024, description="Read no faster. Default: no limit.")
    max_active_sessions: int | None = Field(
        None,
        ge=1,
        description="Beside the stream no further piece is begun while more sessions than that are active at the"
        " source, our own left out; before the stream one is, for the source keeps WAL until all are read. The role"
        " needs `pg_monitor`. Default: no limit.",
    )
    max_replica_lag: Size | None = Field(
        None,
        ge=2**20,
        description="Beside the stream no further piece is begun while a physical replica is further behind, in WAL"
        " that it has not replayed; before the stream one is. The role needs `pg_monitor`. Default: no limit.",
    )
