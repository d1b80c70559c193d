"""The body of an `epoch` frame: one run of the reader begins.

It is valid only if its number is higher than that of every valid epoch frame before it. Everything of older epochs
behind it is void, for everyone.
"""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum

from tidegate.contracts.branch import Branch, decode_branch
from tidegate.contracts.document import build, load
from tidegate.contracts.gap import Gap, decode_gap
from tidegate.errors import DecodeError
from tidegate.lsn import ZERO, Lsn, format_lsn, parse_lsn
from tidegate.position import MAX_ORDINAL, Position


class EpochMode(StrEnum):
    CONTINUE = "continue"
    """Changes that the server sends again are skipped up to the tail's last position."""
    REFEED = "refeed"
    """Nothing is skipped: the raw topic does not hold everything any more. Lanes drop what they already have."""
    RESNAPSHOT = "resnapshot"
    """As `refeed`, but what a sink lacks below `start_lsn` is nowhere any more: a gap. A snapshot of every table
    follows, and lanes go on behind the gap."""


@dataclass(frozen=True, slots=True)
class PreviousEpoch:
    number: int
    epoch_offset: int
    last_seq: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What the reader asked of the server. They change only at a commit boundary: ordinals depend on them."""

    publications: tuple[str, ...]
    protocol: int
    messages: bool
    streaming: bool = False
    origin: str = "any"


@dataclass(frozen=True, slots=True)
class EpochRecord:
    mode: EpochMode
    start_lsn: Lsn
    tail: Position
    """The furthest stream position the raw topic had reached: beyond its end where a re-feed was cut short. If the
    mode is `continue`, the skipping ends at the frame's own position."""
    options: StreamOptions
    previous: PreviousEpoch | None
    topic_id: str
    server_version: int
    software: str
    branch: Branch | None = None
    """On which timeline; one without it is on the generation's own."""
    gap: Gap | None = None
    """The last one that was announced, as long as the frame that did so is in the raw topic."""
    options_since: Lsn = ZERO
    """What commits at or below it may have been asked for with other options."""

    def is_of(self, topic_id: str, offset: int) -> bool:
        """Whether it counts where it stands. Else the topic was made again, or its brokers lost the log, after its
        writer had looked: it was written for another place, and its writer ended there."""
        return self.topic_id == topic_id and (self.previous is None or self.previous.last_offset < offset)

    def encode(self) -> bytes:
        document: dict[str, object] = {
            "mode": self.mode,
            "start_lsn": format_lsn(self.start_lsn),
            "tail": [format_lsn(self.tail.commit_lsn), self.tail.ordinal],
            "options": asdict(self.options),
            "previous": asdict(self.previous) if self.previous else None,
            "topic_id": self.topic_id,
            "server_version": self.server_version,
            "software": self.software,
        }
        if self.branch is not None:
            document["branch"] = self.branch.to_json()
        if self.gap is not None:
            document["gap"] = self.gap.to_json()
        if self.options_since:
            document["options_since"] = format_lsn(self.options_since)
        return json.dumps(document, separators=(",", ":")).encode()


def decode_epoch(body: bytes) -> EpochRecord:
    try:
        document = load(body)
        previous = document["previous"]
        return build(
            EpochRecord,
            document
            | {
                "mode": _mode(document["mode"]),
                "start_lsn": _lsn(document["start_lsn"]),
                "tail": _position(document["tail"]),
                "options": decode_options(document["options"]),
                "previous": None if previous is None else build(PreviousEpoch, previous),
                "branch": decode_branch(document.get("branch")),
                "gap": decode_gap(document.get("gap")),
                "options_since": _lsn(document["options_since"]) if "options_since" in document else ZERO,
            },
        )
    except (ValueError, KeyError):
        raise DecodeError("the body of an epoch frame is malformed", code="EPOCH_MALFORMED") from None


def _mode(word: object) -> EpochMode:
    """Whoever does not know what an epoch begins with must not go on behind it."""
    if isinstance(word, str) and word.isascii() and word.isidentifier() and word not in set(EpochMode):
        raise DecodeError(
            "a mode of epoch that this version does not know",
            code="EPOCH_MODE_UNKNOWN",
            remedy="A newer reader wrote it. Upgrade the processor first, then admin, then the reader.",
        )
    return EpochMode(str(word))


def decode_options(members: object) -> StreamOptions:
    if not isinstance(members, dict):
        raise ValueError("not an object")
    publications = members.get("publications")
    if not isinstance(publications, list) or not all(isinstance(name, str) for name in publications):
        raise ValueError("publications are a list of names")
    return build(StreamOptions, {**members, "publications": tuple(publications)})


def _position(pair: object) -> Position:
    commit_lsn, ordinal = pair if isinstance(pair, list) and len(pair) == 2 else (None, None)
    if type(ordinal) is not int or not 0 <= ordinal <= MAX_ORDINAL:
        raise ValueError("not a position")
    return Position(_lsn(commit_lsn), ordinal)


def _lsn(text: object) -> Lsn:
    if not isinstance(text, str):
        raise ValueError("not an LSN")
    return parse_lsn(text)
