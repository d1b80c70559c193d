"""What the API says of the raw topic."""

from typing import Any

from pydantic import BaseModel, Field


class FrameModel(BaseModel):
    offset: int
    written: int = Field(description="Unix milliseconds at which the broker had it.")
    bytes: int
    kind: str
    generation: str
    epoch: int
    seq: int
    first: str = Field(examples=["0/16B3748#0"])
    last: str
    safe_lsn: str
    created: int = Field(description="Unix microseconds at which the reader closed it.")
    messages: int
    changes: int
    part: int | None = None
    parts: int | None = Field(None, description="Of how many parts of one large message.")
    open_xid: int | None = Field(None, description="The transaction that was open when it began.")
    is_void: bool | None = Field(None, description="Of an epoch that had ended: nobody delivers it.")


class FrameList(BaseModel):
    beginning: int = Field(description="First offset the topic still has.")
    end: int = Field(description="The offset that the next frame gets.")
    items: list[FrameModel]
    next_cursor: str | None = None


class FrameDetails(FrameModel):
    tables: list[str]
    said: dict[str, Any] | None = Field(None, description="What an epoch or mark frame says.")
    rows: list[dict[str, Any]] = Field(description="Its changes; values as PostgreSQL sent them.")
    is_cut: bool = Field(description="Whether there are more changes than are shown.")
