"""What may follow when a table changes its shape: a closed set, without the validator (`values.py` says why)."""

from enum import StrEnum


class SchemaChangePolicy(StrEnum):
    EVOLVE = "evolve"
    """Told as an event, where the sink has such; a table's target is altered; rows come in the new shape."""
    IGNORE = "ignore"
    """Rows come in the new shape, and nothing is said."""
    DEAD_LETTER = "dead_letter"
    """Rows of the new shape are dead letters, until a person has decided; other tables go on."""
    HALT = "halt"
    """The lane stops before the first row of the new shape, until a person has decided."""
