"""Judges a configuration before it is anybody's, and says what would be different with it.

Invariant: nothing is connected to, no secret is read and none is shown; a URL in a sink's options is held against the
rules for what may be connected to.
"""

from collections.abc import Iterator
from typing import Any

from tidegate.config.document import parse_bytes
from tidegate.config.epoch import config_epoch, lane_epoch
from tidegate.config.load import pipeline_from
from tidegate.config.pipeline import PipelineConfig
from tidegate.errors import ConfigError, Problem
from tidegate_admin.configuration.schemas import Candidate, Change, Difference, Verdict
from tidegate_admin.errors import FieldProblem
from tidegate_admin.security.egress import Egress, url_problems

_ABSENT = object()
_EFFECTS = {
    "reader": "restart the reader",
    "source": "restart the reader",
    "raw_topic": "restart the reader and the processor",
    "kafka": "restart every service",
    "redis": "restart every service",
    "admin": "restart the admin service",
    "log": "restart every service",
}
_FIXED = {
    "pipeline": "another pipeline: topics, keys and slot have other names",
    "source.slot": "another slot: another generation, and a gap unless a snapshot is taken",
    "source.database": "another source: another generation",
}


def shown(config: PipelineConfig) -> dict[str, Any]:
    return config.model_dump(mode="json", by_alias=True)


async def judge(candidate: Candidate, egress: Egress) -> tuple[PipelineConfig | None, Verdict]:
    try:
        config = _read(candidate)
        problems = await _urls(config, egress)
    except ConfigError as error:
        config, problems = None, error.problems or (Problem("(file)", error.code, error.message, error.remedy),)
    listed = [FieldProblem(pointer=p.path, code=p.code, reason=p.reason, remedy=p.remedy) for p in problems]
    return (None if problems else config), Verdict(valid=not problems, problems=listed)


async def compare(now: PipelineConfig, candidate: Candidate, egress: Egress) -> Difference:
    wanted, verdict = await judge(candidate, egress)
    if wanted is None:
        return Difference(valid=False, problems=verdict.problems, epoch_before=config_epoch(now))
    before = {sink.name for sink in now.sinks}
    return Difference(
        valid=True,
        changes=list(_changes(shown(now), shown(wanted), "")),
        epoch_before=config_epoch(now),
        epoch_after=config_epoch(wanted),
        lanes=[
            sink.name
            for sink in wanted.sinks
            if sink.name in before and lane_epoch(now, sink.name) != lane_epoch(wanted, sink.name)
        ],
    )


def _read(candidate: Candidate) -> PipelineConfig:
    if (candidate.text is None) == (candidate.document is None):
        raise ConfigError(
            "text or document is given, and not both", code="CANDIDATE_AMBIGUOUS", remedy="Send one of the two."
        )
    document = parse_bytes(candidate.text.encode()) if candidate.text is not None else candidate.document
    return pipeline_from(document, environ={}, secrets=())


async def _urls(config: PipelineConfig, egress: Egress) -> tuple[Problem, ...]:
    found = [
        await url_problems(sink.options, f"sinks[{index}].options", egress) for index, sink in enumerate(config.sinks)
    ]
    return tuple(problem for each in found for problem in each)


def _changes(before: Any, after: Any, path: str) -> Iterator[Change]:  # plain JSON
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted({*before, *after}):
            yield from _changes(before.get(name, _ABSENT), after.get(name, _ABSENT), f"{path}.{name}".lstrip("."))
    elif isinstance(before, list) and isinstance(after, list) and _named(before) and _named(after):
        yield from _changes(_by_name(before), _by_name(after), path)
    else:
        yield Change(path=path, before=_value(before), after=_value(after), effect=_effect(path))


def _named(items: list[Any]) -> bool:
    return all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in items)


def _by_name(items: list[Any]) -> dict[str, Any]:
    return {item["name"]: item for item in items}


def _value(value: Any) -> Any:
    return None if value is _ABSENT else value


def _effect(path: str) -> str:
    fixed = next((effect for prefix, effect in _FIXED.items() if f"{path}.".startswith(f"{prefix}.")), None)
    return fixed or _EFFECTS.get(path.partition(".")[0], "restart the processor")
