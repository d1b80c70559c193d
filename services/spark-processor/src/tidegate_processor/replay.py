"""Which dead letters a lane may deliver again: what their topic says of them, and what the log says of their keys.

Invariant: a letter goes only if every later change of its key that the sink has been given goes again behind it, in the
same request; or by force. So what is delivered last of a key is the newest of it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tidegate.contracts.cursor import Cursor
from tidegate.contracts.dead_letter import DeadLetter
from tidegate.contracts.frame import Frame, FrameKind, SchemaRole
from tidegate.contracts.request import Fate, LaneRequest
from tidegate.contracts.resolution import Resolution
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.messages import Relation
from tidegate.position import BEGINNING, Position
from tidegate_processor.decode import decode_changes
from tidegate_processor.parts import goes_on, joined
from tidegate_processor.touches import Key, Touched, table_of, touched_by_change, touched_by_letter

_MOST_JOINED_BYTES = 64 * 2**20

Takes = Callable[[DeadLetter], bool]
"""Whether the sink's routes take what a letter holds."""


@dataclass(frozen=True, slots=True)
class Has:
    """What the sink was given: all up to `delivered`. The lane goes on behind `position`, which a rewind sets back."""

    generation: str
    position: Position
    delivered: Position

    @classmethod
    def of(cls, cursor: Cursor) -> "Has":
        return cls(cursor.generation, cursor.position, max(cursor.position, cursor.rewound_from or cursor.position))


@dataclass(slots=True, eq=False)
class Asked:
    """One open letter that is asked for, and what the log has shown of it."""

    letter: DeadLetter
    touched: Touched | None
    """None: it can't be delivered alone."""
    newer_asked: set[Position] = field(default_factory=set)
    """Of later changes of its key, those that are asked for too."""
    newer: Position | None = None
    """The first of the others."""
    is_covered: bool | None = None
    """Whether the log was read from its frame on. None: not yet."""


class Letters:
    """Fed with the records of the topic in order."""

    def __init__(self, request: LaneRequest, lane: str) -> None:
        self.request, self.lane = request, lane
        self.of_lane = request.of_lane or lane
        self.is_copy = self.of_lane != lane
        self.open: dict[str, Asked] = {}
        self._closed: set[str] = set()
        self._mine: set[str] = set()
        """Delivered by an earlier run of this request, which was cut off behind its commit."""
        self._wanted = frozenset(request.ids)

    def wants(self, identity: str) -> bool:
        return identity in self._wanted

    def take(self, record: DeadLetter | Resolution) -> None:
        if isinstance(record, Resolution):
            self._close(record)
        elif record.id in self._wanted and record.lane == self.of_lane:
            self._closed.discard(record.id)
            self.open[record.id] = Asked(record, touched_by_letter(record))

    def _close(self, resolution: Resolution) -> None:
        named = self._wanted.intersection(resolution.ids)
        if resolution.request == self.request.id and resolution.lane == self.lane:
            self._mine |= named
        if resolution.closes:
            self._closed |= named
            for identity in named:
                self.open.pop(identity, None)

    def fates(self, has: Has, takes: Takes) -> dict[str, Fate]:
        """From the newest back: what is older goes only if what is newer goes too."""
        fates = {identity: self._unasked(identity) for identity in self.request.ids if identity not in self.open}
        going: set[Position] = set()
        for asked in sorted(self.open.values(), key=lambda each: each.letter.position, reverse=True):
            letter = asked.letter
            fate = Fate.DELIVERED if letter.id in self._mine else self._fate(asked, has, takes, going)
            fates[letter.id] = fate
            if fate is Fate.DELIVERABLE:
                going.add(letter.position)
        return fates

    def _unasked(self, identity: str) -> Fate:
        if identity in self._mine:
            return Fate.DELIVERED
        return Fate.RESOLVED if identity in self._closed else Fate.UNKNOWN

    def _fate(self, asked: Asked, has: Has, takes: Takes, going: set[Position]) -> Fate:
        letter = asked.letter
        if asked.touched is None or letter.generation != has.generation:
            return Fate.UNABLE
        if not takes(letter):
            return Fate.NOT_TAKEN
        if letter.position > has.position:
            return Fate.AHEAD
        if self.request.is_forced:
            return Fate.DELIVERABLE
        if not asked.is_covered:
            return Fate.UNPROVEN
        has_newer = asked.newer is not None and asked.newer <= has.delivered
        return Fate.NEWER if has_newer or not asked.newer_asked <= going else Fate.DELIVERABLE


class Watch:
    """Shown every frame of the log from the letters' own on, it notes which later changes are about their rows."""

    def __init__(self, letters: Letters) -> None:
        able = [asked for asked in letters.open.values() if asked.touched is not None]
        self._of_table: dict[str, list[Asked]] = {}
        self._of_key: dict[tuple[str, tuple[str, ...], Key], list[Asked]] = {}
        self._of_all: dict[str, list[Asked]] = {}
        """Those whose own rows can't be told."""
        self._columns: dict[str, set[tuple[str, ...]]] = {}
        # Another lane's letter is a change that this lane has passed, or will: it is none of its own open ones.
        self._is_copy = letters.is_copy
        self._asked = frozenset() if letters.is_copy else frozenset(each.letter.position for each in able)
        self._parts: list[Frame] = []
        for asked in able:
            self._add(asked, asked.touched)

    def _add(self, asked: Asked, touched: Touched | None) -> None:
        assert touched is not None
        self._of_table.setdefault(touched.table, []).append(asked)
        self._columns.setdefault(touched.table, set()).add(touched.columns)
        if touched.keys is None:
            self._of_all.setdefault(touched.table, []).append(asked)
        for key in touched.keys or ():
            self._of_key.setdefault((touched.table, touched.columns, key), []).append(asked)

    def see(self, frame: Frame) -> None:
        header = frame.header
        if header.kind not in (FrameKind.WAL, FrameKind.SNAPSHOT):
            return
        tables = [table for table in _tables(frame) if table in self._of_table]
        if not tables:
            return
        if header.kind is FrameKind.SNAPSHOT:
            self._note(header.last, map(Touched, tables))  # about which rows is not looked into
        elif header.parts:
            self._see_part(frame, tables)
        else:
            self._see_changes(frame)

    def _see_changes(self, frame: Frame) -> None:
        for change in decode_changes(frame, BEGINNING):
            self._note(change.position, touched_by_change(change))

    def _see_part(self, frame: Frame, tables: Iterable[str]) -> None:
        """Of a message whose beginning was not seen, or that is very large, nobody looks which row it is about."""
        if frame.header.part == 1:
            self._parts.clear()
        if not goes_on(self._parts, frame) or sum(len(part.body) for part in self._parts) > _MOST_JOINED_BYTES:
            self._parts.clear()
            self._note(frame.header.first, map(Touched, tables))
            return
        self._parts.append(frame)
        if frame.header.part == frame.header.parts:
            self._see_changes(joined(self._parts))
            self._parts.clear()

    def _note(self, position: Position, changed: Iterable[Touched]) -> None:
        for touched in changed:
            for asked in self._met(touched):
                own = asked.letter.position
                if position < own or (position == own and not self._is_copy):
                    continue
                if position in self._asked:
                    asked.newer_asked.add(position)
                elif asked.newer is None or position < asked.newer:
                    asked.newer = position

    def _met(self, touched: Touched) -> Iterable[Asked]:
        of_table = self._of_table.get(touched.table)
        if of_table is None:
            return ()
        if touched.keys is None:
            return of_table
        others: list[Asked] = []
        if self._columns[touched.table] != {touched.columns}:  # the key was made of other columns once
            others = [each for each in of_table if each.touched and each.touched.columns != touched.columns]
        found = [each for key in touched.keys for each in self._of_key.get((touched.table, touched.columns, key), ())]
        return dict.fromkeys((*found, *self._of_all.get(touched.table, ()), *others))


def _tables(frame: Frame) -> Iterable[str]:
    described = (decode_message(entry.message) for entry in frame.schema if entry.role is SchemaRole.CURRENT)
    return [table_of(each) for each in described if isinstance(each, Relation)]


def letters_in_order(letters: Letters, fates: Mapping[str, Fate]) -> list[DeadLetter]:
    going = [each.letter for each in letters.open.values() if fates[each.letter.id] is Fate.DELIVERABLE]
    return sorted(going, key=lambda letter: letter.position)
