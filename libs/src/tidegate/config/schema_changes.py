"""What follows in a sink when a table at the source gets another shape.

Invariant: rows are never dropped by it. A lane that halts has acked nothing behind the change, and goes on from there;
rows that are refused are dead letters, which can be replayed.
"""

from pydantic import Field

from tidegate.config.base import Model
from tidegate.config.schema_policy import SchemaChangePolicy
from tidegate.pgoutput.shape_changes import ShapeChangeKind

_EVOLVE = SchemaChangePolicy.EVOLVE


class SchemaChanges(Model):
    table_renamed: SchemaChangePolicy = Field(_EVOLVE, description="The table, or its schema, has another name.")
    column_renamed: SchemaChangePolicy = Field(_EVOLVE, description="A column has another name, type and place stay.")
    column_removed: SchemaChangePolicy = Field(_EVOLVE, description="A column is gone.")
    column_added: SchemaChangePolicy = Field(_EVOLVE, description="A column is new.")
    type_changed: SchemaChangePolicy = Field(_EVOLVE, description="A column has another type, length or precision.")
    identity_changed: SchemaChangePolicy = Field(_EVOLVE, description="Other columns identify a row: keys change.")

    def policy(self, kind: ShapeChangeKind) -> SchemaChangePolicy:
        policy: SchemaChangePolicy = getattr(self, kind)
        return policy
