"""What is done to changes on the way to a sink: one model of options a verb.

Invariant: the verbs are a closed set, and their options are checked with the rest of the file, all mistakes at once. A
verb that nobody applies (a mask!) is refused, not ignored.
"""

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from tidegate.config.base import Many, Model
from tidegate.config.expression import Value, columns_of
from tidegate.config.expression_text import MAX_CHARACTERS, parse, parse_value
from tidegate.config.expression_tokens import ExpressionError
from tidegate.config.problems import did_you_mean, refuse
from tidegate.config.secret import Secret
from tidegate.config.tables import MAX_NAME_BYTES, TablePattern
from tidegate.events import Operation

_TABLES = "Tables this is for, `schema.table` with `*`. Default: all."


class Verb(StrEnum):
    DROP_COLUMNS = "drop_columns"
    RENAME_FIELDS = "rename_fields"
    MASK = "mask"
    FILTER = "filter"
    COMPUTE = "compute"


class Missing(StrEnum):
    """What follows if a column named without `*` is not in a table named without `*`."""

    STOP = "stop"
    IGNORE = "ignore"


class MaskKind(StrEnum):
    ZERO = "zero"
    HASH = "hash"
    REDACT = "redact"
    TOKENISE = "tokenise"


class FilterAction(StrEnum):
    KEEP = "keep"
    DROP = "drop"


def _column(value: str) -> str:
    if len(value.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        raise refuse(
            code="CONFIG_NAME_TOO_LONG",
            reason="a PostgreSQL name has at most 63 bytes",
            remedy="Write the name as the catalogue shows it.",
        )
    return value


ColumnPattern = Annotated[str, Field(min_length=1), AfterValidator(_column)]
_COLUMNS = "Columns by name, with `*` for any run of characters."
_MISSING = (
    "A column that is named without `*`, but is not in a table named without `*`: `stop` the lane, or `ignore` it."
)


class DropColumnsOptions(Model):
    tables: Many[TablePattern] = Field((), max_length=1_000, description=_TABLES)
    columns: Many[ColumnPattern] = Field(min_length=1, max_length=1_000, description=_COLUMNS)
    missing: Missing = Field(Missing.STOP, description=_MISSING)


class RenameFieldsOptions(Model):
    tables: Many[TablePattern] = Field((), max_length=1_000, description=_TABLES)
    fields: dict[ColumnPattern, ColumnPattern] = Field(
        min_length=1, max_length=1_000, description="Old name: new name."
    )
    missing: Missing = Field(Missing.STOP, description=_MISSING)

    @model_validator(mode="after")
    def _names_are_told_apart(self) -> Self:
        if len(set(self.fields.values())) < len(self.fields):
            raise refuse(
                code="TRANSFORM_RENAME_TWICE",
                reason="two columns would have one name",
                remedy="Give each column a new name of its own.",
            )
        return self


class MaskOptions(Model):
    tables: Many[TablePattern] = Field((), max_length=1_000, description=_TABLES)
    columns: Many[ColumnPattern] = Field(min_length=1, max_length=1_000, description=_COLUMNS)
    how: MaskKind = Field(description="What stands in place of a value; NULL stays NULL.")
    salt: Secret | None = Field(
        None, description="Of `hash` and `tokenise`: a secret of 16 bytes or more; equal salts give equal masks."
    )
    replacement: str = Field("***", max_length=1_000, description="Of `redact`: the text instead.")
    missing: Missing = Field(Missing.STOP, description=_MISSING)

    @model_validator(mode="after")
    def _salt_where_it_counts(self) -> Self:
        is_salted = self.how in (MaskKind.HASH, MaskKind.TOKENISE)
        if is_salted and self.salt is None:
            raise refuse(
                code="TRANSFORM_SALT_MISSING",
                reason="hash and tokenise need a salt: without one, whoever guesses a value can prove it",
                remedy="Add salt: ${env:NAME} or ${file:/absolute/path}.",
            )
        if not is_salted and self.salt is not None:
            raise refuse(
                code="TRANSFORM_SALT_UNUSED",
                reason="zero and redact use no salt",
                remedy="Remove it, or choose hash or tokenise.",
            )
        return self


def _condition(value: str) -> str:
    try:
        columns = columns_of(parse(value))
    except ExpressionError as error:
        raise _not_understood(str(error)) from None
    if not columns:
        raise _not_understood("it names no column")
    return value


def _not_understood(reason: str) -> PydanticCustomError:
    return refuse(
        code="TRANSFORM_CONDITION",
        reason=f"the condition is not understood: {reason}",
        remedy="Write for example region = 'eu' AND (amount > 10.5 OR note IS NULL).",
    )


class FilterOptions(Model):
    tables: Many[TablePattern] = Field((), max_length=1_000, description=_TABLES)
    operations: Many[Operation] = Field(
        tuple(Operation), min_length=1, description="Operations this is for. Default: all of them."
    )
    action: FilterAction = Field(
        FilterAction.KEEP,
        description="`keep`: of these tables only what matches passes. `drop`: of these, what matches does not.",
    )
    where: Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS), AfterValidator(_condition)] | None = Field(
        None, description="A condition on the row; columns are named as the source has them. Default: any row."
    )

    def means(self, schema: str, table: str) -> bool:
        return not self.tables or any(pattern.matches(schema, table) for pattern in self.tables)

    def passes(self, schema: str, table: str, operation: str) -> bool:
        """By names alone, before any row is looked at."""
        if not self.means(schema, table):
            return True
        if self.action is FilterAction.KEEP:
            return operation in self.operations
        return operation not in self.operations or self.where is not None


def _value(text: str) -> str:
    try:
        parse_value(text)
    except ExpressionError as error:
        raise refuse(
            code="TRANSFORM_VALUE",
            reason=f"the expression is not understood: {error}",
            remedy="Write for example price * quantity, first || last, or CASE WHEN paid THEN 'yes' ELSE 'no' END.",
        ) from None
    return text


Expression = Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS), AfterValidator(_value)]


class ComputeOptions(Model):
    tables: Many[TablePattern] = Field((), max_length=1_000, description=_TABLES)
    columns: dict[ColumnPattern, Expression] = Field(
        min_length=1, max_length=100, description="Name of the new column: expression over those that are there."
    )
    missing: Missing = Field(Missing.STOP, description=_MISSING)

    @property
    def values(self) -> Mapping[str, Value]:
        return {name: parse_value(text) for name, text in self.columns.items()}


OPTIONS: Mapping[str, type[Model]] = {
    Verb.DROP_COLUMNS: DropColumnsOptions,
    Verb.RENAME_FIELDS: RenameFieldsOptions,
    Verb.MASK: MaskOptions,
    Verb.FILTER: FilterOptions,
    Verb.COMPUTE: ComputeOptions,
}


def _known_verb(value: str) -> str:
    if value not in OPTIONS:
        raise refuse(
            code="TRANSFORM_UNKNOWN",
            reason="no transform has this name",
            remedy=did_you_mean(value, OPTIONS) or "Remove it.",
        )
    return value


class Transform(Model):
    type: Annotated[str, AfterValidator(_known_verb)] = Field(
        description="What is done to each change: `drop_columns`, `rename_fields`, `mask`, `filter` or `compute`."
    )
    options: dict[str, Any] = Field(
        default_factory=dict, repr=False, description="Options of the transform: docs/reference/transforms.md."
    )


def options_of(transform: Transform) -> Model:
    """Typed. A file's options were checked when it was loaded; others are refused here, as pydantic says it."""
    return _parsed(transform.type, json.dumps(transform.options, sort_keys=False))


@lru_cache(maxsize=1024)
def _parsed(verb: str, options: str) -> Model:
    return OPTIONS[verb].model_validate_json(options)


def passes(transforms: Iterable[Transform], schema: str, table: str, operation: str) -> bool:
    """Whether a change gets through all filters that go by names alone."""
    filters = (options_of(each) for each in transforms if each.type == Verb.FILTER)
    return all(each.passes(schema, table, operation) for each in filters if isinstance(each, FilterOptions))
