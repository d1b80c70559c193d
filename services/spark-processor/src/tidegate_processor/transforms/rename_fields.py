"""Other names for columns, in the row, the old row, the key and `unchanged`. All of one transform at once: two columns
may change names with each other."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidegate.config.transforms import RenameFieldsOptions
from tidegate.errors import ConfigError
from tidegate.pgoutput.messages import Relation
from tidegate.pgoutput.rewrite import Written
from tidegate_processor.transforms.base import Source, check_present, exactly


class RenameFields:
    def __init__(self, options: RenameFieldsOptions) -> None:
        self._options = options

    def columns(self, source: Source, columns: Sequence[Written]) -> Sequence[Written]:
        options = self._options
        is_exact = exactly(options.tables, source.relation)
        if is_exact is None:
            return columns
        if source.is_strict:
            check_present(source.relation, columns, tuple(options.fields), options.missing, is_exact=is_exact)
        renamed = [_renamed(each, options.fields) for each in columns]
        if source.is_strict:
            _check_told_apart(source.relation, renamed)
        return renamed


def _renamed(column: Written, names: Mapping[str, str]) -> Written:
    if column.is_dropped or column.column.name not in names:
        return column
    return replace(column, column=replace(column.column, name=names[column.column.name]))


def _check_told_apart(relation: Relation, columns: Sequence[Written]) -> None:
    seen: set[str] = set()
    for each in columns:
        if each.is_dropped:
            continue
        if each.column.name in seen:
            raise ConfigError(
                f"two columns of {relation.schema}.{relation.name} would be named {each.column.name}",
                code="TRANSFORM_NAME_TAKEN",
                remedy="Choose another name, or drop or rename the column that has it.",
            )
        seen.add(each.column.name)
