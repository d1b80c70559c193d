"""What the API says of the source: enough to choose tables without psql."""

from pydantic import BaseModel, ConfigDict, Field

from tidegate_admin.publications.schemas import Identity


class DatabaseModel(BaseModel):
    name: str
    is_pipelines: bool = Field(description="Whether the pipeline reads it: a slot sees one database.")
    encoding: str
    bytes: int | None = Field(None, description="null where the role may not connect.")


class SourceModel(BaseModel):
    version: str
    system_identifier: str | None = Field(None, description="null where the role may not ask.")
    wal_level: str
    is_standby: bool
    current_lsn: str | None
    max_replication_slots: int
    used_replication_slots: int
    max_slot_wal_keep_bytes: int | None = Field(None, description="null: without limit.")
    databases: list[DatabaseModel]


class SchemaModel(BaseModel):
    name: str
    tables: int


class SchemaList(BaseModel):
    items: list[SchemaModel]
    next_cursor: str | None = None


class TableModel(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    schema_name: str = Field(alias="schema", serialization_alias="schema")
    table: str
    identity: Identity
    is_partitioned: bool
    rows: int | None = Field(None, description="As the planner estimates; null: never analysed.")
    bytes: int
    publications: list[str] = Field(description="By which its changes are published.")
    is_published: bool = Field(description="Whether by one that this pipeline reads.")


class TableList(BaseModel):
    items: list[TableModel]
    next_cursor: str | None = None


class ColumnModel(BaseModel):
    name: str
    type: str = Field(description="As PostgreSQL writes it.", examples=["numeric(10,2)"])
    json_form: str = Field(description="How an event holds it.", examples=["string of digits"])
    nullable: bool
    is_key: bool = Field(description="Part of the replica identity.")
    is_generated: bool


class TableDetails(TableModel):
    columns: list[ColumnModel]
