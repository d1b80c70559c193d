"""Judges a configuration before it is anybody's, and says what would be different with it.

A file of megabytes takes long to read, so that is done in a thread, one file at a time.

Invariant: nothing is connected to, no secret is read and none is shown; a URL in a sink's options, and that of the
collector of spans, is held against the rules for what may be connected to.
"""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tidegate.config.document import parse_bytes
from tidegate.config.epoch import config_epoch, lane_epoch
from tidegate.config.load import pipeline_from
from tidegate.config.pipeline import PipelineConfig
from tidegate.config.reloads import is_hot
from tidegate.errors import ConfigError, Problem, TransientError
from tidegate_admin.configuration.schemas import Candidate, Change, Difference, Verdict
from tidegate_admin.errors import FieldProblem
from tidegate_admin.security.egress import Egress, url_problems, urls_in

READ_SECONDS = 10.0
"""With the wait for those who asked before."""

_ABSENT = object()
_EFFECTS = {
    "reader": "restart the reader",
    "source": "restart the reader",
    "raw_topic": "restart the reader and the processor",
    "kafka": "restart every service",
    "redis": "restart every service",
    "admin": "restart the admin service",
    "log": "restart every service",
    "tracing": "restart the reader and the processor",
    "snapshot": "restart the reader",
}
_AT_ONCE = "at once"
_WITH_OTHERS = "with the restart that another change asks for"
_FIXED = {
    "pipeline": "another pipeline: topics, keys and slot have other names",
    "source.slot": "another slot: another generation, and a gap unless a snapshot is taken",
    "source.database": "another source: another generation",
}


def shown(config: PipelineConfig) -> dict[str, Any]:
    return config.model_dump(mode="json", by_alias=True)


class Judge:
    """Its one thread, not a lock, is what there is one of: it goes on with a file when whoever asked has left."""

    def __init__(self, egress: Egress) -> None:
        self._egress = egress
        self._thread = ThreadPoolExecutor(1, "judge")

    async def judge(self, candidate: Candidate) -> tuple[PipelineConfig | None, Verdict]:
        problems: list[Problem]
        try:
            config = await self._read(candidate)
            problems = await url_problems(_urls(config), self._egress)
        except ConfigError as error:
            config, told = None, Problem("(file)", error.code, error.message, error.remedy)
            problems = list(error.problems) or [told]
        listed = [FieldProblem(pointer=p.path, code=p.code, reason=p.reason, remedy=p.remedy) for p in problems]
        return (None if problems else config), Verdict(valid=not problems, problems=listed)

    async def _read(self, candidate: Candidate) -> PipelineConfig:
        try:
            async with asyncio.timeout(READ_SECONDS):
                return await asyncio.get_running_loop().run_in_executor(self._thread, read, candidate)
        except TimeoutError:
            raise TransientError(
                "other configurations are being judged",
                code="JUDGE_BUSY",
                remedy="Ask again in a moment: one is judged at a time.",
            ) from None


async def compare(now: PipelineConfig, candidate: Candidate, judge: Judge) -> Difference:
    wanted, verdict = await judge.judge(candidate)
    if wanted is None:
        return Difference(valid=False, problems=verdict.problems, epoch_before=config_epoch(now))
    before = {sink.name for sink in now.sinks}
    return Difference(
        valid=True,
        changes=changes(now, wanted),
        epoch_before=config_epoch(now),
        epoch_after=config_epoch(wanted),
        lanes=[
            sink.name
            for sink in wanted.sinks
            if sink.name in before and lane_epoch(now, sink.name) != lane_epoch(wanted, sink.name)
        ],
    )


def changes(before: PipelineConfig, after: PipelineConfig) -> list[Change]:
    """A running service takes a file over as a whole or not at all, so what would take effect at once waits for what
    does not."""
    found = list(_changes(shown(before), shown(after), ""))
    if all(change.effect == _AT_ONCE for change in found):
        return found
    return [
        change.model_copy(update={"effect": _WITH_OTHERS}) if change.effect == _AT_ONCE else change for change in found
    ]


def is_fixed(path: str) -> bool:
    return any(f"{path}.".startswith(f"{prefix}.") for prefix in _FIXED)


def read(candidate: Candidate) -> PipelineConfig:
    if (candidate.text is None) == (candidate.document is None):
        raise ConfigError(
            "text or document is given, and not both", code="CANDIDATE_AMBIGUOUS", remedy="Send one of the two."
        )
    document = parse_bytes(candidate.text.encode()) if candidate.text is not None else candidate.document
    return pipeline_from(document, environ={}, secrets=())


def _urls(config: PipelineConfig) -> list[tuple[str, str]]:
    sinks = enumerate(config.sinks)
    found = [found for index, sink in sinks for found in urls_in(sink.options, f"sinks[{index}].options")]
    return found if config.tracing is None else [("tracing.endpoint", config.tracing.endpoint), *found]


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
    if not fixed and is_hot(path):
        return _AT_ONCE
    section, *within = path.split(".")
    if section == "sinks" and within[1:] in (["required"], ["from"]):  # the reader goes by them too
        return "restart the reader and the processor"
    return fixed or _EFFECTS.get(section, "restart the processor")
