"""What a lane does when a table changes its shape: tell the sink, say nothing, refuse its rows, or stop.

A mark stands in the stream immediately before the first change of the new shape. The strictest policy of all that
changed at once decides: halt, then dead_letter, then evolve, then ignore.

| a mark from shape A to B                        | rows of B                                    |
| ----------------------------------------------- | -------------------------------------------- |
| A is refused, B is the one accepted before A     | go on                                        |
| A is refused, B is yet another                   | are refused, whatever has changed since      |
| A is not refused, the policy is dead_letter      | are refused; A is the shape accepted before  |
| else                                             | go on, or the lane stands before them        |

A shape is refused from such a mark on, up to one that leads into it again and is accepted: a table may have had it
before, and may come back to it another way. Invariant: what is refused is in the cursor, so a lane that begins behind
the mark, or is rewound, refuses the same rows and no others; and it is refused only as long as the policy says so.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from tidegate.config.schema_policy import SchemaChangePolicy
from tidegate.config.sinks import SinkConfig
from tidegate.contracts.frame import Frame
from tidegate.contracts.mark import MarkKind, decode_mark
from tidegate.contracts.refused_shape import RefusedShape, are_too_many
from tidegate.errors import StreamError
from tidegate.events import Operation
from tidegate.pgoutput.encode import encode_message
from tidegate.pgoutput.messages import Relation
from tidegate.pgoutput.shape_changes import ShapeChange, ShapeChangeKind, shape_changes, shapes_of_mark
from tidegate.position import Position
from tidegate_processor.sinks.base import Capabilities

_DIGEST_BYTES = 8
_SHAPES_KEPT = 4096


class ShapePolicy:
    """Of one lane, told of every mark in order."""

    def __init__(self, lane: SinkConfig, refused: Iterable[RefusedShape]) -> None:
        self._lane = lane
        self.recall(refused)

    def recall(self, refused: Iterable[RefusedShape]) -> None:
        self._refused = [each for each in refused if self._is_upheld(each)]

    @property
    def refused(self) -> tuple[RefusedShape, ...]:
        return tuple(self._refused)

    @property
    def refuses_any(self) -> bool:
        return bool(self._refused)

    def refusals(self, relation: bytes) -> list[RefusedShape]:
        """Of a relation, as a frame's schema section has it: where its rows are refused."""
        shape = shape_id(relation)
        return [each for each in self._refused if each.shape == shape]

    def is_told(self, frame: Frame, after: Position, sink: Capabilities) -> bool:
        """Whether the sink is given this mark; a StreamError if the lane stops at it."""
        kind = decode_mark(frame.body).kind
        if kind in (MarkKind.SNAPSHOT_STARTED, MarkKind.SNAPSHOT_COMPLETED):
            return sink.notices  # they move no position, as the rows between them; routes decide
        if kind is not MarkKind.SCHEMA_CHANGE or frame.header.first <= after:
            return False
        previous, current = shapes_of_mark(frame)
        if not any(self._lane.takes(current.schema, current.name, operation) for operation in Operation):
            return False
        is_met = self._meets(previous, current, frame.header.first)
        return is_met and (sink.notices or (sink.follows and self._takes(current, frame.header.first)))

    def _takes(self, shape: Relation, at: Position) -> bool:
        """Whether its rows are delivered there."""
        return not any(each.holds(at) for each in self.refusals(encode_message(shape)))

    def _meets(self, previous: Relation, current: Relation, at: Position) -> bool:
        changes = shape_changes(previous, current)
        policies = {self._lane.schema_changes.policy(change.kind) for change in changes}
        if SchemaChangePolicy.HALT in policies:
            raise _halted(current, changes)
        before, now = (shape_id(encode_message(each)) for each in (previous, current))
        left = next((each for each in self._refused if each.shape == before and each.holds_before(at)), None)
        if left is not None and left.accepted != now:
            self._refuse(RefusedShape(now, left.accepted, left.kinds, at), current, changes)
        elif left is None and SchemaChangePolicy.DEAD_LETTER in policies:
            kinds = tuple(str(each.kind) for each in changes if self._is_refused(each.kind))
            self._refuse(RefusedShape(now, before, tuple(dict.fromkeys(kinds)), at), current, changes)
        else:
            self._refused = list(self._ended(now, at))
        return bool(policies & {SchemaChangePolicy.EVOLVE, SchemaChangePolicy.DEAD_LETTER})

    def _refuse(self, shape: RefusedShape, table: Relation, changes: tuple[ShapeChange, ...]) -> None:
        if any(each.holds(shape.since) and _is_alike(each, shape) for each in self._refused):
            return
        refused = [*self._ended(shape.shape, shape.since), shape]
        if are_too_many(refused):
            raise _halted(table, changes)  # the cursor holds no more
        self._refused = refused

    def _ended(self, shape: str, at: Position) -> Iterator[RefusedShape]:
        """What is refused, but of this shape only before that place."""
        for each in self._refused:
            if each.shape != shape or not each.holds(at):
                yield each
            elif each.since < at:
                yield replace(each, until=at)

    def _is_refused(self, kind: ShapeChangeKind) -> bool:
        return self._lane.schema_changes.policy(kind) is SchemaChangePolicy.DEAD_LETTER

    def _is_upheld(self, shape: RefusedShape) -> bool:
        """Some kind of change for which it was refused still is, or is one that only a newer version knows."""
        known = set(ShapeChangeKind)
        return any(kind not in known or self._is_refused(ShapeChangeKind(kind)) for kind in shape.kinds)


@lru_cache(_SHAPES_KEPT)
def shape_id(relation: bytes) -> str:
    """Equal for equal bytes of a relation, its own id among them."""
    return hashlib.blake2b(relation, digest_size=_DIGEST_BYTES).hexdigest()


def _is_alike(one: RefusedShape, other: RefusedShape) -> bool:
    return (one.shape, one.accepted, one.kinds) == (other.shape, other.accepted, other.kinds)


def _halted(table: Relation, changes: tuple[ShapeChange, ...]) -> StreamError:
    what = ", ".join(f"{each.kind} {each.column or ''}".strip() for each in changes)
    return StreamError(
        f"{table.schema}.{table.name} has changed: {what}",
        code="SCHEMA_CHANGE_HALTED",
        remedy="Prepare the target for it, then set schema_changes of this sink to evolve or ignore and restart the "
        "processor. dead_letter sets only the rows of this table aside meanwhile, and the others go on. As it is the "
        "lane stands and nothing is lost: what is not acked is kept.",
    )
