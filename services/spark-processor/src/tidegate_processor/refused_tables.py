"""What a lane knows of a table in a refused shape: which of its rows are letters, and what these may hold.

| of the table                                        | letters                                              |
| --------------------------------------------------- | ---------------------------------------------------- |
| no transform looks into it                          | of all rows, as received                             |
| a value is masked or dropped, or a column that      | without row and schema, only where the change stands |
| would be is not found                               |                                                      |
| a condition keeps rows from the sink                | of those that it lets through, or can't decide about |
| a condition does not fit the shape                  | of all rows, without row and schema                  |

Invariant: whoever may read dead letters does not thereby read what the sink must not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.config.expression import columns_of
from tidegate.config.sinks import SinkConfig
from tidegate.contracts.frame import Frame
from tidegate.errors import ConfigError, RecordError
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.encode import encode_message
from tidegate.pgoutput.messages import Relation, Type
from tidegate.pgoutput.rewrite import Writer, Written, as_it_is
from tidegate.position import Position
from tidegate.quoting import qualified
from tidegate_processor.transforms.conditions import row_filters
from tidegate_processor.transforms.registry import ColumnPlan, column_verbs
from tidegate_processor.transforms.rename_fields import RenameFields

if TYPE_CHECKING:  # kernels are loaded where frames are decoded, in a worker, and nowhere else
    from tidegate.columns.plans import Shape
    from tidegate.columns.refusals import RejectedChange
    from tidegate.columns.rewrites import FrameRewriter

# More live only on sources with very many tables; then all are looked at anew.
_KEPT = 4096


class RefusedTable:
    def __init__(self, shape: "Shape", *, is_withheld: bool, judge: "FrameRewriter | None") -> None:
        relation = shape.relation
        self.relation, self.error = relation, _refusal(relation)
        self.bare = encode_message(replace(relation, columns=()))
        """For a frame that no row of it is left in: a TRUNCATE needs no column, and nobody is to look for any."""
        self._judge = judge
        self._hold(shape, is_withheld=is_withheld)

    def _hold(self, shape: "Shape", *, is_withheld: bool) -> None:
        self.is_withheld = is_withheld
        self.shape = replace(shape, source=()) if is_withheld else shape

    def judged(self, frame: Frame, after: Position) -> "tuple[Frame, tuple[RejectedChange, ...]]":
        """Without the rows that a condition keeps from the sink, and without those that none can decide about."""
        if self._judge is None:
            return frame, ()
        try:
            made = self._judge.rewrite(frame, after)
        except ConfigError:  # the condition compares with values that this shape does not have
            self._judge = None
            self._hold(self.shape, is_withheld=True)
            return frame, ()
        return made.frame, tuple(self.letter(each) for each in made.rejected)

    def letter(self, rejected: "RejectedChange") -> "RejectedChange":
        return replace(rejected, shape=self.shape, raw=b"" if self.is_withheld else rejected.raw)


class RefusedTables:
    """Of one lane, each looked at once."""

    def __init__(self, lane: SinkConfig) -> None:
        self._lane = lane
        self._verbs = column_verbs(lane.transforms)
        self._plan = ColumnPlan(self._verbs, lane.takes)
        self._known: dict[tuple[bytes, tuple[bytes, ...]], RefusedTable] = {}

    def of(self, source: bytes, types: tuple[bytes, ...]) -> RefusedTable:
        """A Relation and the Types beside it, as a frame's schema section has them."""
        found = self._known.get((source, types))
        if found is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            found = self._known[source, types] = self._looked_at(source, types)
        return found

    def _looked_at(self, source: bytes, types: tuple[bytes, ...]) -> RefusedTable:
        from tidegate.columns.plans import Shape

        relation, described = decode_message(source), map(decode_message, types)
        assert isinstance(relation, Relation)
        shape = Shape(relation, {each.type_oid: each for each in described if isinstance(each, Type)}, (source, *types))
        judge, fits = self._judge(relation)
        return RefusedTable(shape, is_withheld=self._conceals(shape) or not fits, judge=judge)

    def _conceals(self, shape: "Shape") -> bool:
        """Or would: a column that is to be masked may be there by another name."""
        try:
            written = self._plan(shape.relation, shape.types, True)
        except ConfigError:
            return any(not isinstance(verb, RenameFields) for verb in self._verbs)
        return any(each.writer is not Writer.COPY for each in written)

    def _judge(self, relation: Relation) -> "tuple[FrameRewriter | None, bool]":
        """Of this table alone, and whether its conditions fit: if they don't, nobody can say what they would keep."""
        from tidegate.columns.rewrites import FrameRewriter

        name = relation.schema, relation.name
        meant = [each for each in row_filters(self._lane.transforms, self._lane.takes) if each.means(*name)]
        columns = {column.name for column in relation.columns}
        if not all(columns_of(each.condition) <= columns for each in meant):
            return None, False
        own = [replace(each, means=lambda *table: table == name) for each in meant]
        return FrameRewriter(_untouched, self._lane.takes, own) if own else None, True


def _untouched(relation: Relation, _: Mapping[int, Type], __: bool) -> Sequence[Written]:
    return as_it_is(relation)


def _refusal(table: Relation) -> RecordError:
    name = qualified(table.schema, table.name)
    return RecordError(
        f"{name} has changed its shape, and this sink does not take rows of the new one",
        code="SCHEMA_CHANGE_REFUSED",
        remedy="Prepare the target, set schema_changes of this sink to evolve or ignore for that kind of change, "
        "restart the processor, then replay the dead letters, oldest first.",
    )
