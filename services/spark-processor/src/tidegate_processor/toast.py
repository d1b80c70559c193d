"""Previous values in place of unchanged ones (TOAST) that the server does not send: what the lane itself has seen.

| change              | of the row's remembered values                                                        |
| ------------------- | -------------------------------------------------------------------------------------- |
| insert              | forgotten, then those that it sends                                                   |
| update              | fill what it does not send; then what it holds now, under its new key                 |
| delete              | forgotten                                                                             |
| truncate, new shape | all of the relation forgotten                                                         |

Invariant: a value is filled in only if it is the one that the row has: every change of the relation since was seen, in
the order of positions. What is not known stays marked as unchanged. Kept in memory and bounded, the least recently
changed rows are forgotten first; a lane that starts anew knows nothing.

A kernel finds the changes of a frame. Those of a relation are looked at one by one, in Python, only where one of them
is large enough to be remembered or lacks a value, or where rows of it are remembered.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegate.contracts.frame import BODY_ENTRY, Frame, FrameKind, SchemaRole
from tidegate.events import Operation
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.encode import encode_message
from tidegate.pgoutput.messages import (
    UNCHANGED,
    Delete,
    Insert,
    Message,
    OldKind,
    Relation,
    ReplicaIdentity,
    Row,
    Truncate,
    Update,
)
from tidegate.pgoutput.types import BUILT_IN
from tidegate.position import Position

if TYPE_CHECKING:  # kernels are loaded where frames are decoded, in a worker, and nowhere else
    from tidegate_processor.toast_scan import ChangeScan

MOST_BYTES = 64 * 2**20
# PostgreSQL looks at rows from 2 kB on (TOAST_TUPLE_THRESHOLD). Text can be shorter than what is stored: arrays of
# floats take a quarter. What is shorter still is not remembered, and so stays marked.
_SHORTEST_ROW = 512
_ENTRY_BYTES = 200

_FIXED = frozenset(
    BUILT_IN[name]
    for name in (
        "bool", "char", "name", "int8", "int2", "int4", "oid", "xid", "cid", "point", "lseg", "box", "line", "float4",
        "float8", "circle", "macaddr8", "money", "macaddr", "date", "time", "timestamp", "timestamptz", "interval",
        "timetz", "uuid", "pg_lsn", "xid8",
    )
)  # fmt: skip

_Key = tuple[int, tuple[bytes, ...]]


@dataclass(frozen=True, slots=True)
class _Shape:
    source: bytes
    width: int
    key: tuple[int, ...]
    """Places of the key's columns."""
    kept: tuple[int, ...]
    """Places of the columns that may be stored out of line."""


class PreviousValues:
    def __init__(self, takes: Callable[[str, str, Operation], bool], *, most_bytes: int = MOST_BYTES) -> None:
        self.bytes = 0
        self._generation = ""
        self._takes, self._most_bytes = takes, most_bytes
        self._shapes: dict[int, _Shape] = {}
        self._rows: OrderedDict[_Key, dict[int, bytes]] = OrderedDict()
        self._remembered: Counter[int] = Counter()
        """Rows, by relation."""
        self._scan: ChangeScan | None = None

    def fill(self, frame: Frame, after: Position) -> Frame:
        """The frame with all that is known; changes at or below `after` were seen before."""
        if frame.header.kind is FrameKind.MARK:
            return frame
        if frame.header.generation.id != self._generation:
            self._generation = frame.header.generation.id
            self._rows.clear()
            self._remembered.clear()
            self.bytes = 0
        shapes = self._learn(frame)
        if not shapes:
            return frame
        written: list[bytes] = []
        copied = 0
        for at, length in self._scanned(frame, after, shapes):
            message = decode_message(frame.body[at : at + length])
            filled = self._see(message, shapes, length)
            if filled is not message:
                head = at - BODY_ENTRY.size
                _, lsn = BODY_ENTRY.unpack_from(frame.body, head)
                raw = encode_message(filled)
                written += (frame.body[copied:head], BODY_ENTRY.pack(len(raw), lsn), raw)
                copied = at + length
        return replace(frame, body=b"".join((*written, frame.body[copied:]))) if written else frame

    def _scanned(self, frame: Frame, after: Position, shapes: Mapping[int, _Shape]) -> list[tuple[int, int]]:
        """Where the changes stand that matter."""
        if self._scan is None:
            from tidegate_processor.toast_scan import ChangeScan

            self._scan = ChangeScan(_SHORTEST_ROW)
        remembered = {relation_id for relation_id in shapes if self._remembered[relation_id]}
        return self._scan.of(frame, after, shapes.keys(), remembered)

    def _learn(self, frame: Frame) -> dict[int, _Shape]:
        """The relations that are remembered. One that looks otherwise than before is another one."""
        shapes = {}
        for entry in frame.schema:
            if entry.role is not SchemaRole.CURRENT or entry.message[:1] != b"R":
                continue
            relation = decode_message(entry.message)
            assert isinstance(relation, Relation)
            known = self._shapes.get(relation.relation_id)
            if known is None or known.source != entry.message:
                self._forget_all(relation.relation_id)
                known = self._shapes[relation.relation_id] = _shape(entry.message, relation)
            if known.key and known.kept and self._is_taken(relation):
                shapes[relation.relation_id] = known
        return shapes

    def _is_taken(self, relation: Relation) -> bool:
        return any(self._takes(relation.schema, relation.name, operation) for operation in Operation)

    def _see(self, message: Message, shapes: Mapping[int, _Shape], size: int) -> Message:
        if isinstance(message, Truncate):
            for relation_id in message.relation_ids:
                self._forget_all(relation_id)
        if not isinstance(message, Insert | Update | Delete) or message.relation_id not in shapes:
            return message
        shape, relation_id = shapes[message.relation_id], message.relation_id
        before = message.new if isinstance(message, Insert) or message.old is None else message.old
        if len(before) != shape.width or (not isinstance(message, Delete) and len(message.new) != shape.width):
            return message  # whoever decodes it says what is wrong
        if not isinstance(message, Insert) and _key(relation_id, before, shape) is None:
            self._forget_all(relation_id)  # it may be any of them
            return message
        known = self._take(relation_id, before, shape)
        if isinstance(message, Delete):
            return message
        if isinstance(message, Insert):
            self._keep(relation_id, message.new, shape, size)
            return message
        new = tuple(known.get(place, value) if value is UNCHANGED else value for place, value in enumerate(message.new))
        if message.old is not None and message.old_kind is OldKind.KEY:  # a key that was not sent is the old one
            old = message.old
            new = tuple(old[at] if value is UNCHANGED and at in shape.key else value for at, value in enumerate(new))
        self._keep(relation_id, new, shape, size + sum(map(len, known.values())))
        return message if new == message.new else replace(message, new=new)

    def _take(self, relation_id: int, row: Row, shape: _Shape) -> dict[int, bytes]:
        key = _key(relation_id, row, shape)
        found = self._rows.pop(key, None) if key is not None else None
        if found is None:
            return {}
        assert key is not None
        self._forgotten(key, found)
        return found

    def _keep(self, relation_id: int, row: Row, shape: _Shape, size: int) -> None:
        key = _key(relation_id, row, shape)
        if key is None or size < _SHORTEST_ROW:
            return
        self._take(relation_id, row, shape)
        values = {place: value for place in shape.kept if isinstance(value := row[place], bytes)}
        self._rows[key] = values
        self._remembered[relation_id] += 1
        self.bytes += _size(key, values)
        while self.bytes > self._most_bytes:
            self._forgotten(*self._rows.popitem(last=False))

    def _forget_all(self, relation_id: int) -> None:
        for key in [key for key in self._rows if key[0] == relation_id]:
            self._forgotten(key, self._rows.pop(key))

    def _forgotten(self, key: _Key, values: Mapping[int, bytes]) -> None:
        self.bytes -= _size(key, values)
        self._remembered[key[0]] -= 1


def _shape(source: bytes, relation: Relation) -> _Shape:
    columns = list(enumerate(relation.columns))
    # Under FULL the server sends the old row, and so the value.
    is_keyed = relation.replica_identity in (ReplicaIdentity.DEFAULT, ReplicaIdentity.INDEX)
    key = tuple(place for place, column in columns if column.is_key) if is_keyed else ()
    return _Shape(source, len(columns), key, tuple(place for place, column in columns if column.type_oid not in _FIXED))


def _key(relation_id: int, row: Row, shape: _Shape) -> _Key | None:
    """None: of a row that can't be told apart from others."""
    values = [row[place] for place in shape.key]
    texts = tuple(value for value in values if isinstance(value, bytes))
    return (relation_id, texts) if len(texts) == len(shape.key) else None


def _size(key: _Key, values: Mapping[int, bytes]) -> int:
    return _ENTRY_BYTES + sum(map(len, key[1])) + sum(map(len, values.values()))
