"""What a lane does when a table changes its shape: tell the sink, say nothing, or stop.

A mark stands in the stream immediately before the first change of the new shape. The strictest policy of all that
changed at once decides: halt, then evolve, then ignore.
"""

from tidegate.config.schema_policy import SchemaChangePolicy
from tidegate.config.sinks import SinkConfig
from tidegate.contracts.frame import Frame
from tidegate.contracts.mark import MarkKind, decode_mark
from tidegate.errors import StreamError
from tidegate.events import Operation
from tidegate.pgoutput.messages import Relation
from tidegate.pgoutput.shape_changes import ShapeChange, shape_changes, shapes_of_mark
from tidegate.position import Position


def is_told(config: SinkConfig, frame: Frame, after: Position) -> bool:
    """Whether the sink is given this mark; a StreamError if the lane stops at it."""
    kind = decode_mark(frame.body).kind
    if kind in (MarkKind.SNAPSHOT_STARTED, MarkKind.SNAPSHOT_COMPLETED):
        return True  # they move no position, as the rows between them; routes decide
    if kind is not MarkKind.SCHEMA_CHANGE or frame.header.first <= after:
        return False
    previous, current = shapes_of_mark(frame)
    if not any(config.takes(current.schema, current.name, operation) for operation in Operation):
        return False
    changes = shape_changes(previous, current)
    policies = {config.schema_changes.policy(change.kind) for change in changes}
    if SchemaChangePolicy.HALT in policies:
        raise _halted(current, changes)
    return SchemaChangePolicy.EVOLVE in policies


def _halted(table: Relation, changes: tuple[ShapeChange, ...]) -> StreamError:
    what = ", ".join(f"{each.kind} {each.column or ''}".strip() for each in changes)
    return StreamError(
        f"{table.schema}.{table.name} has changed: {what}",
        code="SCHEMA_CHANGE_HALTED",
        remedy="Prepare the target for it, then set schema_changes of this sink to evolve or ignore and restart the "
        "processor; or take the table out of its routes. Meanwhile nothing is lost: what is not acked is kept.",
    )
