"""What a person asks of a lane, through the admin API: one sealed value a request, done by the lane's driver.

Only the lane itself moves its cursor or delivers again: it alone knows what it has delivered, and can be fenced.
A request names what it is about; the lane refuses what its own position forbids.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from tidegate.contracts.document import build
from tidegate.contracts.fixed_width import decode_position, encode_position
from tidegate.contracts.sealed import seal, unseal
from tidegate.errors import DecodeError
from tidegate.position import Position

MOST_IDS = 1000


class Asked(StrEnum):
    PAUSE = "pause"
    RESUME = "resume"
    REWIND = "rewind"
    """Read on behind `position`, from `offset` or from what was written at `since` on, or, where none of them is given,
    from the beginning of what there is; with a new incarnation. The ack stays where it is."""
    PING = "ping"
    """Ask the sink whether it answers."""
    TRIAL = "trial"
    """Write the newest rows of the raw topic once more, and drop them uncommitted: whether the sink takes them."""
    REPLAY = "replay"
    """Deliver dead letters `ids` again, unless something newer of the same key has been delivered. They are this lane's
    own, or those of `of_lane`, and stand in their topic at or behind the offset `letters_from`."""


@dataclass(frozen=True, slots=True)
class LaneRequest:
    id: str
    """Drawn by whoever asks; the same id twice is one request."""
    asked: Asked
    by: str
    time: int
    """Unix microseconds."""
    position: Position | None = None
    """Of a rewind, at most one of these three: everything behind this position comes again."""
    offset: int | None = None
    """A raw offset."""
    since: int | None = None
    """Unix microseconds, by the clock of the raw topic."""
    ids: tuple[str, ...] = ()
    """Dead letters of a replay."""
    is_forced: bool = False
    """Of a replay: deliver also where something newer has been, or where that cannot be told."""
    is_dry_run: bool = False
    """Of a replay: only say what would become of each."""
    of_lane: str = ""
    letters_from: int = 0

    def encode(self) -> bytes:
        given: dict[str, object] = {
            name: value for name, value in (("offset", self.offset), ("since", self.since)) if value is not None
        }
        if self.asked is Asked.REPLAY:
            given |= {"of_lane": self.of_lane, "letters_from": self.letters_from}
        return seal(
            {
                **given,
                "id": self.id,
                "asked": self.asked,
                "by": self.by,
                "time": self.time,
                "position": encode_position(self.position) if self.position else None,
                "ids": list(self.ids),
                "is_forced": self.is_forced,
                "is_dry_run": self.is_dry_run,
            }
        )


def decode_request(value: bytes) -> LaneRequest:
    document = unseal(value)
    try:
        ids, position = document["ids"], document["position"]
        if not isinstance(ids, list) or len(ids) > MOST_IDS or not all(isinstance(each, str) for each in ids):
            raise ValueError("not ids")
        if sum(document.get(name) is not None for name in ("position", "offset", "since")) > 1:
            raise ValueError("two places")
        return build(
            LaneRequest,
            document
            | {
                "asked": Asked(str(document["asked"])),
                "position": None if position is None else decode_position(position),
                "ids": tuple(ids),
            },
        )
    except (KeyError, ValueError):
        raise DecodeError("this is not a request to a lane", code="LANE_REQUEST_MALFORMED") from None


class Result(StrEnum):
    WAITING = "waiting"
    """No lane has looked at it yet, or it is under way. Never written: it is what a missing outcome means."""
    DONE = "done"
    REFUSED = "refused"


class Fate(StrEnum):
    """What became of a dead letter that was to be delivered again, or, in a dry run, what would."""

    DELIVERED = "delivered"
    DELIVERABLE = "deliverable"
    """Of a dry run."""
    NEWER = "newer"
    """Something newer of its key has been delivered. Forced, it is delivered."""
    UNPROVEN = "unproven"
    """The raw topic does not reach back to it, so nobody knows what is newer. Forced, it is delivered."""
    AHEAD = "ahead"
    """The lane has been rewound to before it, and comes by it again."""
    RESOLVED = "resolved"
    """Given up, or delivered before."""
    UNKNOWN = "unknown"
    """No such dead letter of this lane stands in the topic."""
    UNABLE = "unable"
    """It does not hold what is needed to deliver it alone: of another generation, a truncate of several tables, or too
    large to be kept whole."""
    NOT_TAKEN = "not_taken"
    """The sink takes nothing of that kind any more."""
    REJECTED = "rejected"
    """It failed again, and is open still."""


@dataclass(frozen=True, slots=True)
class LaneOutcome:
    """What became of a request. Written by the lane's driver together with taking the request away."""

    id: str
    result: Result
    time: int
    """Unix microseconds."""
    code: str = ""
    """Of a refusal."""
    message: str = ""
    remedy: str = ""
    fates: dict[str, object] = field(default_factory=dict)
    """Of a replay: the ids of each fate."""

    def encode(self) -> bytes:
        return seal({name: value for name, value in asdict(self).items() if name != "fates" or value})

    def letters(self) -> dict[Fate, tuple[str, ...]]:
        return {Fate(fate): tuple(ids) for fate, ids in self.fates.items() if isinstance(ids, list)}


def by_fate(fates: Mapping[str, Fate], order: Iterable[str]) -> dict[str, object]:
    """As an outcome holds them."""
    told: dict[str, list[str]] = {}
    for identity in order:
        told.setdefault(fates[identity].value, []).append(identity)
    return dict(told)


def decode_outcome(value: bytes) -> LaneOutcome:
    document = unseal(value)
    try:
        outcome = build(LaneOutcome, document | {"result": Result(str(document["result"]))})
        if not all(_are_texts(ids) for ids in outcome.letters().values()) or len(outcome.letters()) < len(
            outcome.fates
        ):
            raise ValueError("not ids")
        return outcome
    except (KeyError, ValueError):
        raise DecodeError("this is not a lane's outcome", code="LANE_OUTCOME_MALFORMED") from None


@dataclass(frozen=True, slots=True)
class LanePause:
    """Whether a lane is to stand. It outlives the processor; a missing one means that the lane runs."""

    is_paused: bool
    by: str
    time: int

    def encode(self) -> bytes:
        return seal(asdict(self))


def decode_pause(value: bytes) -> LanePause:
    document = unseal(value)
    try:
        return build(LanePause, document)
    except ValueError:
        raise DecodeError("this does not say whether a lane is paused", code="LANE_PAUSE_MALFORMED") from None


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(each, str) for each in values)
