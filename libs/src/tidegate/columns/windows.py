"""Which rows of a snapshot still count: the changes of one relation above `low`, and what they leave of a row.

    window.note(frame)              # each `wal` frame from `low_offset` on
    window.judge(frame, text)       # rows, COPY text: which are left out, which are written anew

What a row is, by the newest change of its key in the window, is docs/decisions/0070; the finer points are 0075.
Invariant: what is said depends on the changes above `low` and on the row, and on nothing else, so it is the same on
every replay. A row whose key did not change is never left out: keys are compared whole (`key_sets.py`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tidegate.columns import key_sets, layout
from tidegate.columns.envelopes import EventSource, default_envelope
from tidegate.columns.frames import Changes, scan_frame
from tidegate.columns.layout import Refusal
from tidegate.columns.plans import Plans, Section
from tidegate.columns.refusals import decode_error
from tidegate.columns.text import SLACK
from tidegate.contracts.frame import Frame
from tidegate.errors import StreamError
from tidegate.pgoutput.copy_text import CopyRow, copy_line, copy_rows
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.messages import Insert, Update, Value
from tidegate.position import BEGINNING, Position

_FIRST_SLOTS, _FIRST_BYTES = 1 << 12, 1 << 16
# Of the keys of one window: two million changes of rows with a key of 40 bytes.
MOST_BYTES = 256 * 2**20

_Sent = tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class Judgement:
    left_out: np.ndarray
    """Of which rows nothing is delivered."""
    text: bytes
    """All of them, those anew whose unchanged values a change did not send."""


class Window:
    """Of one relation. Not for two threads at once."""

    def __init__(self, relation_id: int, low: Position) -> None:
        self._relation_id, self._position = relation_id, low
        self._plans = Plans(EventSource("", "", 0), lambda *_: "", default_envelope)
        self._slots = np.zeros(_FIRST_SLOTS, np.int64)
        self._entries = np.empty((_FIRST_SLOTS, key_sets.ENTRY_FIELDS), np.int64)
        self._arena = np.empty(_FIRST_BYTES, np.uint8)
        self._state = np.zeros(key_sets.STATE_FIELDS, np.int64)
        self._sent: dict[tuple[int, int], list[_Sent]] = {}
        self._key_columns: int | None = None

    def note(self, frame: Frame) -> None:
        """The changes of a whole `wal` frame; those that an epoch sends again are known."""
        section = self._plans.section(frame)
        place = self._place(section)
        if place is not None:
            wanted = np.full((len(section.ids), layout.OPERATIONS), layout.NONE, np.int64)
            wanted[place] = 0
            changes = scan_frame(frame, self._position, section, wanted)
            if len(changes.rows):
                self._check_key(section, place)
                self._note(changes, place)
        self._position = max(self._position, frame.header.last)

    def judge(self, frame: Frame, text: bytes) -> Judgement:
        """`frame` holds the rows of `text` as inserts."""
        rows = text.count(b"\n")
        left_out = np.zeros(rows, np.bool_)
        section = self._plans.section(frame)
        place = self._place(section)
        if place is None or section.relations[place, layout.KEYS] == 0 or not rows:
            return Judgement(left_out, text)
        if self._state[key_sets.IS_TRUNCATED]:
            left_out[:] = True
            return Judgement(left_out, text)
        found = self._found(frame, section, place)
        names = [column.name for column in section.shapes[place].relation.columns]
        anew: dict[int, CopyRow] = {}
        lines = text.split(b"\n") if self._sent else []
        for row in np.flatnonzero(found != layout.NONE).tolist():
            sent = self._sent_since(int(found[row])) if lines else None
            if sent is None:
                left_out[row] = True
            else:
                (values,) = copy_rows(lines[row] + b"\n", len(names))
                anew[row] = tuple(_text(sent.get(name, value)) for name, value in zip(names, values, strict=True))
        for row, values in anew.items():
            lines[row] = copy_line(values)[:-1]
        return Judgement(left_out, b"\n".join(lines) if anew else text)

    def _place(self, section: Section) -> int | None:
        (places,) = np.nonzero(section.ids == self._relation_id)
        return int(places[0]) if len(places) else None

    def _check_key(self, section: Section, place: int) -> None:
        """A relation without a key is not compared; one that got another key can't be."""
        columns = int(section.relations[place, layout.KEYS])
        if self._key_columns not in (None, columns):
            raise _uncertain("the replica identity of a table was changed while its rows were read")
        self._key_columns = columns

    def _note(self, changes: Changes, place: int) -> None:
        noted = np.empty((len(changes.rows), 2), np.int64)
        if not self._key_columns:
            return
        while True:
            known = self._slots, self._entries, self._arena, self._state
            room, refusal = key_sets.note(changes.body, changes.rows, self._tables(changes.section), known, noted)
            if refusal:
                raise _refused(changes, int(self._state[key_sets.NEXT]), refusal)
            if not room:
                break
            self.make_room(room)
        shape = changes.section.shapes[place]
        names = [column.name for column in shape.relation.columns]
        for row in np.flatnonzero(noted[:, key_sets.PARTIAL_KEY] != layout.NONE).tolist():
            key, life = noted[row].tolist()
            at, length = changes.rows[row, [layout.MESSAGE, layout.LENGTH]].tolist()
            message = decode_message(changes.body[at : at + length].tobytes())
            assert isinstance(message, Insert | Update)
            self._sent.setdefault((key, life), []).append(tuple(zip(names, message.new, strict=True)))

    def _tables(self, section: Section) -> tuple[np.ndarray, ...]:
        values = np.empty((section.widest, layout.VALUE_FIELDS), np.int64)
        return section.relations, self._plans.columns.view, self._plans.keys.view, values

    def make_room(self, room: int) -> None:
        """In the arena, and for twice as many keys."""
        keys, used = int(self._state[key_sets.KEYS]), int(self._state[key_sets.USED])
        if used + room > len(self._arena):
            larger = np.empty(2 * len(self._arena) + room, np.uint8)
            if len(larger) > MOST_BYTES:
                raise _uncertain("more rows of a table were changed while it was read than this lane can remember")
            larger[:used] = self._arena[:used]
            self._arena = larger
        entries = np.empty((2 * len(self._entries), key_sets.ENTRY_FIELDS), np.int64)
        entries[:keys] = self._entries[:keys]
        self._entries, self._slots = entries, np.zeros(2 * len(self._slots), np.int64)
        key_sets.settle(self._slots, self._entries, keys)

    def _found(self, frame: Frame, section: Section, place: int) -> np.ndarray:
        wanted = np.full((len(section.ids), layout.OPERATIONS), layout.NONE, np.int64)
        wanted[place, layout.INSERT] = 0
        changes = scan_frame(frame, BEGINNING, section, wanted)
        found = np.full(len(changes.rows), layout.NONE, np.int64)
        if self._key_columns is None:
            return found
        self._check_key(section, place)
        largest = int(changes.rows[:, layout.LENGTH].max())
        scratch = np.empty(largest + (8 + SLACK) * (self._key_columns + 1), np.uint8)
        known = self._slots, self._entries, self._arena, self._state
        row, refusal = key_sets.find(changes.body, changes.rows, self._tables(section), known, scratch, found)
        if refusal:
            raise _refused(changes, row, refusal)
        return found

    def _sent_since(self, key: int) -> Mapping[str, Value] | None:
        """What the changes of a row have sent that the log still lacks values of; None if it lacks none."""
        fate = int(self._entries[key, key_sets.FATE])
        life = int(self._entries[key, key_sets.LIFE if fate == key_sets.PARTIAL else key_sets.ENDED_LIFE])
        # In a later life the row that was read may be the one before.
        if fate == key_sets.WHOLE or life != 0:
            return None
        sent: dict[str, Value] = {}
        for each in self._lives(key, life):
            if each is None:
                return None
            sent.update((name, value) for name, value in each if value is None or isinstance(value, bytes))
        return sent

    def _lives(self, key: int, life: int) -> Iterator[_Sent | None]:
        """Change by change, also where it moved to another key; at last None if nothing is lacking of it."""
        while True:
            yield from self._sent.get((key, life), ())
            entry = self._entries[key]
            if entry[key_sets.LIFE] == life:
                if entry[key_sets.FATE] != key_sets.PARTIAL:
                    yield None
                return
            if entry[key_sets.ENDED_LIFE] != life or entry[key_sets.MOVED_TO] == layout.NONE:
                yield None
                return
            key, life = int(entry[key_sets.MOVED_TO]), int(entry[key_sets.MOVED_LIFE])


def _text(value: Value) -> bytes | None:
    assert value is None or isinstance(value, bytes)
    return value


def _refused(changes: Changes, row: int, refusal: int) -> StreamError:
    if refusal in (Refusal.KEY_NOT_SENT, Refusal.BINARY_VALUE):
        return _uncertain("the server did not send the key of a changed row as text")
    return decode_error(changes, row, Refusal(refusal))


def _uncertain(why: str) -> StreamError:
    return StreamError(
        f"which rows of a snapshot are older than the changes beside them can't be told: {why}",
        code="SNAPSHOT_WINDOW",
        remedy="Start the lane over with a new name behind this snapshot, and take a new one of the table.",
    )
