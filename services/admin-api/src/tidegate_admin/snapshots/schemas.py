"""What the API says of snapshots, and takes to ask for one."""

from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from tidegate.contracts.snapshot_request import MOST_FILTERS, MOST_PRIORITY, MOST_TABLES, Comparison, split_table
from tidegate.contracts.snapshot_status import SnapshotKind, SnapshotState


def _named(text: str) -> str:
    """The reader takes no other."""
    try:
        split_table(text)
    except ValueError:
        raise ValueError('write a table as schema.table, a part as "…" where it holds a dot or a blank') from None
    return text


Name = Annotated[str, Field(min_length=1, max_length=300, pattern=r"^[^\x00]+$"), AfterValidator(_named)]


class Filter(BaseModel):
    """Rows for which the comparison is true; several of one table must all be."""

    model_config = ConfigDict(extra="forbid")

    table: Name = Field(description="`schema.table`, as in `tables`.")
    column: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[^\x00]+$")]
    comparison: Comparison
    value: Annotated[str, Field(max_length=4096, pattern=r"^[^\x00]*$")] | None = Field(
        None, description="Read by the column's type, as a literal in SQL is; none with `is null` and `is not null`."
    )

    @model_validator(mode="after")
    def _has_its_value(self) -> Self:
        if self.comparison.takes_value != (self.value is not None):
            raise ValueError("is null and is not null take no value, all others take one")
        return self


class Start(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tables: list[Name] = Field(
        default_factory=list, max_length=MOST_TABLES, description="`schema.table`; none: all that are published."
    )
    filters: list[Filter] = Field(default_factory=list, max_length=MOST_FILTERS)
    priority: int = Field(0, ge=-MOST_PRIORITY, le=MOST_PRIORITY, description="The highest is read first.")

    @model_validator(mode="after")
    def _filters_are_of_its_tables(self) -> Self:
        if not {split_table(each.table) for each in self.filters} <= set(map(split_table, self.tables)):
            raise ValueError("a filter names a table that is not asked for: name it among the tables, too")
        return self


class SnapshotAsked(BaseModel):
    id: str = Field(description="Of the request; a start's is the snapshot's too.")
    asked: str
    snapshot: str


class TableModel(BaseModel):
    table: str
    state: SnapshotState
    rows: int
    bytes: int
    estimated_rows: int
    percent: float
    rows_per_second: float
    bytes_per_second: float
    seconds_left: float | None = Field(description="At the pace of the last seconds; none while nothing moves.")
    note: str = Field(description="What is special about how it is read.")


class SnapshotModel(BaseModel):
    id: str
    kind: SnapshotKind
    state: SnapshotState
    by: str
    requested: int = Field(description="Unix microseconds, as all times here; 0: not yet.")
    started: int
    finished: int
    time: int = Field(description="Of this report, which the reader makes every second.")
    is_stale: bool = Field(description="The reader has been silent about it for some seconds, though it is not over.")
    priority: int
    tables: int
    tables_done: int
    rows: int = Field(description="Durable in the raw topic, as bytes are.")
    bytes: int
    percent: float = Field(description="Of the tables' pages on disk.")
    rows_per_second: float
    bytes_per_second: float
    seconds_left: float | None = Field(description="At the pace of the last seconds; none while nothing moves.")
    transaction_seconds: float = Field(description="Age of the oldest transaction that reads for it.")
    waits_for: str
    code: str
    message: str
    remedy: str


class SnapshotList(BaseModel):
    items: list[SnapshotModel]
    next_cursor: str | None = None


class SnapshotDetails(SnapshotModel):
    by_table: list[TableModel]
