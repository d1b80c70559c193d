"""Dead letters delivered after all, in the sink's own transactions, each with the resolution that names what it holds.

The cursor is committed as it was read. So the lane goes on where it stood, and whoever was at work before can't commit:
the sink was fenced when it was opened.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tidegate.contracts.cursor import Cursor
from tidegate.contracts.dead_letter import DeadLetter
from tidegate.contracts.frame import BODY_ENTRY, Frame, FrameHeader, FrameKind, OpenTransaction, SchemaEntry, SchemaRole
from tidegate.contracts.generation import Generation
from tidegate.contracts.request import Fate, LaneRequest
from tidegate.contracts.resolution import Outcome, Resolution
from tidegate.events import SNAPSHOT_ORDINALS, Operation
from tidegate.lsn import Lsn
from tidegate.position import BEGINNING, Position, before
from tidegate_processor.dead_letters import dead_letter
from tidegate_processor.decode import decode_changes
from tidegate_processor.sinks.base import Sink

if TYPE_CHECKING:
    from tidegate.columns.refusals import RejectedChange

# A Kafka transaction must not grow old: as in commit.py, with room for letters that are all of different topics.
_LETTERS_PER_COMMIT = 200
_BYTES_PER_COMMIT = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Redelivery:
    sink: Sink
    cursor: Cursor
    generation: Generation
    request: LaneRequest
    lane: str
    now: Callable[[], int]
    """Unix microseconds."""

    def deliver(self, letters: Iterable[DeadLetter]) -> dict[str, Fate]:
        """In the order given, which is the order of the changes."""
        fates: dict[str, Fate] = {}
        delivered: list[str] = []
        since, size = 0, 0
        for letter in letters:
            fate, written = self._write(letter)
            fates[letter.id] = fate
            delivered += [letter.id] if fate is Fate.DELIVERED else []
            since, size = since + 1, size + written
            if since >= _LETTERS_PER_COMMIT or size >= _BYTES_PER_COMMIT:
                self._commit(delivered)
                delivered, since, size = [], 0, 0
        if since:
            self._commit(delivered)
        return fates

    def _write(self, letter: DeadLetter) -> tuple[Fate, int]:
        after = BEGINNING if letter.operation == Operation.SNAPSHOT else _just_before(letter.position)
        receipt = self.sink.write(frame_of(letter, self.generation), after)
        if receipt.rejected:
            self._reject(letter, receipt.rejected[0])
            return Fate.REJECTED, len(letter.payload)
        return (Fate.DELIVERED if receipt.events else Fate.NOT_TAKEN), receipt.bytes

    def _reject(self, letter: DeadLetter, rejected: "RejectedChange") -> None:
        """It failed anew, perhaps in another way. A copy's failure is none of the letter's own lane."""
        if self.lane != letter.lane:
            return
        again = dead_letter(
            rejected,
            pipeline=letter.pipeline,
            lane=letter.lane,
            generation=letter.generation,
            frame=letter.frame,
            now=self.now(),
        )
        self.sink.write_dead_letters([replace(again, id=letter.id, attempts=letter.attempts + 1)])

    def _commit(self, delivered: list[str]) -> None:
        """Where events and letters are not committed together, the events go first: a resolution never speaks of what
        is not there, and what is cut off between the two is delivered twice, with the same ids."""
        if delivered and not self.sink.capabilities.letters_too:
            self.sink.commit(self.cursor)
        if delivered:
            outcome = Outcome.REPLAYED if self._is_own else Outcome.COPIED
            told = Resolution(outcome, tuple(delivered), self.request.by, self.now(), self.request.id, self.lane)
            records: list[Any] = [told]  # to a sink it is a record of the letters' topic, with a lane, as letters are
            self.sink.write_dead_letters(records)
        self.sink.commit(self.cursor)

    @property
    def _is_own(self) -> bool:
        return self.request.of_lane in ("", self.lane)


def frame_of(letter: DeadLetter, generation: Generation) -> Frame:
    """The letter's change alone, in a frame that begins inside its transaction: so it becomes the same event."""
    if letter.xid is None or letter.commit_time is None or letter.lsn is None:
        raise ValueError("a letter without its transaction is UNABLE")
    position, kind = letter.position, FrameKind.WAL
    begun, ordinal, lsn = position.commit_lsn, position.ordinal, Lsn(letter.lsn)
    if letter.operation == Operation.SNAPSHOT:
        kind, ordinal = FrameKind.SNAPSHOT, ordinal - SNAPSHOT_ORDINALS
        begun, lsn = lsn, begun
    header = FrameHeader(
        kind=kind,
        generation=generation,
        epoch=letter.frame.epoch,
        epoch_nonce=bytes(16),
        epoch_offset=0,
        seq=letter.frame.seq,
        first=position,
        last=position,
        safe_lsn=Lsn(0),
        created=0,
        messages=1,
        changes=1,
        open_transaction=OpenTransaction(letter.xid, begun, letter.commit_time, ordinal),
    )
    schema = tuple(SchemaEntry(SchemaRole.CURRENT, message) for message in letter.schema)
    return Frame(header, schema, BODY_ENTRY.pack(len(letter.payload), lsn) + letter.payload)


def whole(letter: DeadLetter, frame: Frame) -> DeadLetter | None:
    """With what its frame says of its change; none if that is not in there as one piece."""
    if frame.header.kind is not FrameKind.WAL or frame.header.parts or frame.header.generation.id != letter.generation:
        return None
    for change in decode_changes(frame, _just_before(letter.position)):
        if change.position == letter.position and len(change.shapes) == 1:
            begun = change.transaction
            return replace(
                letter,
                payload=change.raw,
                schema=change.shapes[0].source,
                xid=begun.xid,
                commit_time=begun.commit_time,
                lsn=change.lsn,
            )
    return None


def _just_before(position: Position) -> Position:
    commit_lsn, ordinal = position
    return Position(commit_lsn, ordinal - 1) if ordinal else before(commit_lsn)
