"""Where a change is."""

from enum import StrEnum

from pydantic import BaseModel, Field

from tidegate_admin.pipelines.service import Shown


class Stage(StrEnum):
    UNWRITTEN = "unwritten"
    """The source has not come so far."""
    WAL = "wal"
    """In the source's WAL, not in the raw topic."""
    LANE = "lane"
    """In the raw topic; a required sink has not acked it."""
    SLOT = "slot"
    """Acked by all required sinks; the slot has not been moved yet."""
    CONFIRMED = "confirmed"
    """Everywhere; the source may forget it."""
    UNKNOWN = "unknown"
    """A part that would know does not answer, or the transaction was not found at once."""


class RawPlace(BaseModel):
    offset: int
    written: int = Field(description="Unix microseconds at which the reader closed the frame.")
    epoch: int


class LanePlace(BaseModel):
    sink: str
    required: bool
    state: Shown
    acked: bool
    acked_at: int | None = Field(None, description="Unix microseconds of the ack that says so: at this time or before.")
    acked_offset: int | None = None
    reason: str = Field("", description="What is wrong with the lane, if something is.")


class WhereIs(BaseModel):
    stage: Stage = Field(description="Where it is held.")
    held_by: str | None = Field(None, description="The lane that it waits for.")
    reason: str = Field("", description="Why, as far as it is known.")
    lsn: str | None = None
    xid: int | None = None
    source_lsn: str | None = Field(None, description="End of the source's WAL.")
    raw: RawPlace | None = Field(None, description="null: not in the raw topic, or no longer.")
    lanes: list[LanePlace]
    confirmed_flush_lsn: str | None = None
