"""Columns that a sink does not get: neither in the row, nor in the old row, nor in `unchanged`."""

from collections.abc import Sequence
from dataclasses import replace

from tidegate.config.transforms import DropColumnsOptions
from tidegate.errors import ConfigError
from tidegate.pgoutput.messages import Relation
from tidegate.pgoutput.rewrite import Writer, Written
from tidegate_processor.transforms.base import Source, check_present, chosen, exactly, identifies


class DropColumns:
    def __init__(self, options: DropColumnsOptions) -> None:
        self._options = options

    def columns(self, source: Source, columns: Sequence[Written]) -> Sequence[Written]:
        options = self._options
        is_exact = exactly(options.tables, source.relation)
        if is_exact is None:
            return columns
        dropped = chosen(columns, options.columns)
        if source.is_strict:
            check_present(source.relation, columns, options.columns, options.missing, is_exact=is_exact)
            for place in sorted(dropped):
                if identifies(source.relation, columns[place]):
                    raise _key(source.relation, columns[place])
        return [replace(each, writer=Writer.DROP) if place in dropped else each for place, each in enumerate(columns)]


def _key(relation: Relation, column: Written) -> ConfigError:
    return ConfigError(
        f"{column.column.name} of {relation.schema}.{relation.name} is part of the key and can't be dropped",
        code="TRANSFORM_KEY_DROPPED",
        remedy="Rows could not be told apart without it. Mask it with hash or tokenise instead, which keeps equal keys "
        "equal, or leave it in.",
    )
