"""Every verb by its name in the configuration, and what a lane's verbs together make of a relation."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from tidegate.config.pipeline import PipelineConfig
from tidegate.config.transforms import (
    DropColumnsOptions,
    MaskOptions,
    RenameFieldsOptions,
    Transform,
    options_of,
)
from tidegate.errors import ConfigError, Problem
from tidegate.events import Operation
from tidegate.pgoutput.messages import Relation, Type
from tidegate.pgoutput.rewrite import Written, as_it_is
from tidegate_processor.transforms.base import ColumnVerb, Source
from tidegate_processor.transforms.drop_columns import DropColumns
from tidegate_processor.transforms.mask import Mask
from tidegate_processor.transforms.rename_fields import RenameFields


def column_verbs(transforms: Iterable[Transform]) -> tuple[ColumnVerb, ...]:
    """In their order. What goes by names alone (`filter`) is part of a sink's routes and none of them."""
    made = (_made(transform) for transform in transforms)
    return tuple(verb for verb in made if verb is not None)


def _made(transform: Transform) -> ColumnVerb | None:
    match options_of(transform):
        case DropColumnsOptions() as options:
            return DropColumns(options)
        case RenameFieldsOptions() as options:
            return RenameFields(options)
        case MaskOptions() as options:
            return Mask(options)
        case _:
            return None


class ColumnPlan:
    """What a lane's verbs make of a relation; one that its sink takes nothing of is left alone, and so is one without
    columns: it holds no value."""

    def __init__(self, verbs: Sequence[ColumnVerb], takes: Callable[[str, str, Operation], bool]) -> None:
        self._verbs, self._takes = verbs, takes

    def __call__(self, relation: Relation, types: Mapping[int, Type], is_strict: bool) -> Sequence[Written]:
        columns: Sequence[Written] = as_it_is(relation)
        if not columns or not any(self._takes(relation.schema, relation.name, operation) for operation in Operation):
            return columns
        for verb in self._verbs:
            columns = verb.columns(Source(relation, types, is_strict), columns)
        return tuple(columns)


def check(config: PipelineConfig) -> None:
    """What can be seen before a relation is known, of all lanes at once."""
    problems = []
    for sink in config.sinks:
        for at, transform in enumerate(config.lane(sink.name).transforms):
            try:
                _made(transform)
            except ConfigError as error:
                own = at - len(config.transforms)
                path = f"transforms[{at}]" if own < 0 else f"sinks.{sink.name}.transforms[{own}]"
                problems.append(Problem(path, error.code, error.message, error.remedy))
    if problems:
        raise ConfigError(
            "the configuration is refused: its transforms",
            code="CONFIG_INVALID",
            remedy="Mend what is listed; docs/reference/transforms.md describes every verb.",
            problems=tuple(dict.fromkeys(problems)),
        )
