"""What the API says of publications and their tables."""

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

CatalogueName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[^\x00]+$")]


class Identity(StrEnum):
    """By what an UPDATE or DELETE names its row."""

    PRIMARY_KEY = "primary_key"
    INDEX = "index"
    FULL = "full"
    NOTHING = "nothing"
    """UPDATE and DELETE fail at the source while the table is published for them."""


class PublicationModel(BaseModel):
    name: str
    is_used: bool = Field(description="Whether this pipeline reads it.")
    is_managed: bool = Field(description="Whether a reader of this service keeps it.")
    all_tables: bool
    operations: list[str]
    via_partition_root: bool
    tables: int


class PublicationList(BaseModel):
    items: list[PublicationModel]
    next_cursor: str | None = None


class PublishedTable(BaseModel):
    schema_name: str = Field(alias="schema", serialization_alias="schema")
    table: str
    identity: Identity
    has_row_filter: bool
    columns: list[str] | None = Field(None, description="Where only some are published.")
    is_listed: bool = Field(description="By itself; else with its schema or with all tables.")

    model_config = ConfigDict(populate_by_name=True)


class PublishedTables(BaseModel):
    items: list[PublishedTable]
    next_cursor: str | None = None


class AddTable(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True)

    schema_name: CatalogueName = Field(alias="schema", examples=["public"])
    table: CatalogueName = Field(examples=["orders"])
    accept_no_identity: bool = Field(
        False, description="Publish a table without identity: UPDATE and DELETE then fail in the application."
    )


class RemoveTable(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True)

    schema_name: CatalogueName = Field(alias="schema", examples=["public"])
    table: CatalogueName = Field(examples=["orders"])
    confirm: str = Field(max_length=127, description="`schema.table`, typed again.")


class PublicationChanged(BaseModel):
    publication: str
    schema_name: str = Field(serialization_alias="schema")
    table: str
    done: str
