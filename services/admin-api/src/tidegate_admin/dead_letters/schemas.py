"""What the API says of dead letters, and takes to resolve them."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from tidegate.contracts.resolution import MOST_IDS

LetterId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Plain = Annotated[str, Field(min_length=1, max_length=127, pattern=r"^[^\x00]+$")]


class LetterModel(BaseModel):
    id: str
    lane: str
    code: str = Field(description="Of the error.")
    table: str = Field(description="`schema.table`; several with spaces between, of a truncate.")
    operation: str
    commit_lsn: str
    ordinal: int
    time: int = Field(description="Unix microseconds at which it was found last.")
    found: int = Field(description="How often.")
    message: str
    remedy: str
    frame_offset: int = Field(description="Of the frame in the raw topic that it came in.")


class LetterList(BaseModel):
    items: list[LetterModel]
    next_cursor: str | None = None
    is_complete: bool = Field(description="Whether the index has reached the topic's end.")


class LetterDetails(LetterModel):
    attempts: int
    epoch: int
    generation: str
    change: dict[str, Any] | None = Field(None, description="Decoded; null: it cannot be, or was too large to keep.")
    payload: str = Field(description="The change as PostgreSQL sent it, base64.")


class LetterCount(BaseModel):
    lane: str
    code: str
    table: str
    letters: int


class LetterCounts(BaseModel):
    total: int
    items: list[LetterCount] = Field(description="The largest first.")
    is_complete: bool


class Selection(BaseModel):
    """By id, or by what all of them have in common."""

    model_config = ConfigDict(extra="forbid", strict=True)

    ids: list[LetterId] | None = Field(None, min_length=1, max_length=MOST_IDS)
    lane: Plain | None = None
    code: Plain | None = None
    table: Plain | None = None
    since: int | None = Field(None, ge=0, lt=2**62, description="Unix microseconds: those found then or later.")
    until: int | None = Field(None, ge=0, lt=2**62, description="Unix microseconds: those found before.")


class Purge(Selection):
    dry_run: bool = Field(False, description="Only say how many there are, and their digest.")
    confirm: int | None = Field(None, ge=0, le=2**31, description="How many, as the dry run said.")
    digest: Digest | None = Field(None, description="Which ones, as the dry run said. Needed unless ids are given.")


class Replay(Selection):
    dry_run: bool = False
    force: bool = Field(
        False, description="Deliver also where something newer of the same key has been delivered, or may have been."
    )
    to: Plain | None = Field(None, description="Another sink, which its lane delivers to; then they stay open.")
    cursor: str | None = Field(
        None,
        max_length=1024,
        pattern=r"^[A-Za-z0-9_-]+$",
        description="`next_cursor` of the part before: those that are younger. Once the part before is done.",
    )


class Purged(BaseModel):
    letters: int
    done: bool
    digest: str = Field(description="Of the ids that are meant: the same ones have the same digest.")
    is_cut: bool = Field(description="More are meant than are given up at once: these are the oldest.")


class ReplayStarted(BaseModel):
    id: str
    letters: int
    is_cut: bool = Field(description="More are meant than are asked for at once: these are the oldest.")
    next_cursor: str | None = Field(None, description="Asks for those behind them; null: there are no more.")


class Refusal(BaseModel):
    lane: str
    letters: int
    code: str
    message: str
    remedy: str = ""


class ReplayProgress(BaseModel):
    id: str
    by: str
    time: int = Field(description="Unix microseconds.")
    dry_run: bool
    force: bool
    letters: int
    answered: int = Field(description="Of which the lanes have said what has become of them.")
    done: bool
    fates: dict[str, int] = Field(
        description="`delivered`, `deliverable` (in a dry run), `newer`, `unproven`, `ahead`, `resolved`, `unknown`, "
        "`unable`, `not_taken`, `rejected`."
    )
    ids: dict[str, list[str]] = Field(description="Of each fate.")
    refusals: list[Refusal] = Field(description="Of which a lane did nothing.")
