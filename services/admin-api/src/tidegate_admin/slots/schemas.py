"""What the API says of slots, and what it takes for an action on one."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

SLOT_PATTERN = r"^[a-z0-9_]{1,63}$"
LSN_PATTERN = r"^[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}$"

SlotName = Annotated[str, Field(pattern=SLOT_PATTERN)]
LsnText = Annotated[str, Field(pattern=LSN_PATTERN, examples=["0/16B3748"])]


class Whose(StrEnum):
    OWN = "own"
    """Of a pipeline of this service."""
    ORPHAN = "orphan"
    """Made for Tidegate, of no pipeline of this service, read by nobody: it holds WAL for ever."""
    FOREIGN = "foreign"
    """Somebody else's."""


class HolderModel(BaseModel):
    pid: int
    user: str | None
    application: str | None
    address: str | None
    since: datetime | None


class SlotEntry(BaseModel):
    name: str
    whose: Whose
    pipeline: str | None = Field(None, description="The pipeline of this service that it belongs to.")
    plugin: str | None
    database: str | None
    slot_type: str
    active: bool
    holder: HolderModel | None = Field(None, description="Who reads it now.")
    wal_status: str | None = Field(None, description="reserved, extended, unreserved or lost.")
    invalidated: str | None = Field(None, description="Why the server gave it up.")
    restart_lsn: str | None
    confirmed_flush_lsn: str | None
    wal_held_bytes: int | None
    safe_wal_bytes: int | None = Field(None, description="What may still be written before it is lost; null: no limit.")


class SlotList(BaseModel):
    items: list[SlotEntry]
    next_cursor: str | None = None


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class DropSlot(_Body):
    confirm: str = Field(max_length=63, description="The slot's name, typed again.")


class AdvanceSlot(_Body):
    to: LsnText
    confirm: str = Field(max_length=63, description="The slot's name, typed again.")
    accept_loss: bool = Field(
        False, description="Go beyond what every required sink has acked: what lies between is delivered to nobody."
    )


class SlotChanged(BaseModel):
    name: str
    done: str
    confirmed_flush_lsn: str | None = None
