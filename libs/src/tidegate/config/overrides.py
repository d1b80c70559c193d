"""Environment and command line over the file: command line > environment > YAML.

Invariant: an override lands where its path says or is a problem; it never creates a key by accident, because what
comes out is validated like the file.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.config.document import parse_scalar, parse_text
from tidegate.config.problems import Path, format_path
from tidegate.errors import ConfigError, Problem

ENVIRONMENT_PREFIX = "TIDEGATE_"

_STEP = re.compile(r"([^.\[\]]+)((?:\[[0-9]{1,4}\])*)", re.ASCII)
_INDEX = re.compile(r"[0-9]{1,4}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Override:
    steps: tuple[str, ...]
    text: str
    variable: str = ""
    """The environment variable it came from; empty for the command line."""


def from_environment(environ: Mapping[str, str]) -> Iterator[Override]:
    """`TIDEGATE_KAFKA__BOOTSTRAP`. A name without a double underscore is not a field: platforms inject such names."""
    for name in sorted(environ):
        rest = name.removeprefix(ENVIRONMENT_PREFIX)
        if rest != name and "__" in rest:
            yield Override(tuple(rest.lower().split("__")), environ[name], variable=name)


def from_arguments(arguments: Sequence[str]) -> tuple[list[Override], list[Problem]]:
    """`a.b.c=value`, also `sinks[0].required=false` and `sinks.events.required=false`."""
    overrides, problems = [], []
    for argument in arguments:
        path, equals, text = argument.partition("=")
        steps = _steps(path) if equals else ()
        if steps:
            overrides.append(Override(steps, text))
        else:
            problems.append(
                Problem("--set", code="OVERRIDE_FORM", reason="not of the form path=value", remedy="Write a.b.c=value.")
            )
    return overrides, problems


def apply(tree: dict[str, Any], override: Override) -> Path:
    """Sets the value in the tree and returns the path it has there."""
    place: Any = tree
    path: Path = ()
    for step in override.steps[:-1]:
        key = _key(place, step, override)
        path = (*path, key)
        if isinstance(place, dict) and place.get(key) is None:
            place[key] = {}
        place = place[key]
    key = _key(place, override.steps[-1], override)
    value = _value(override.text)
    # `null` on the command line unsets; a variable may hold a secret that happens to read so.
    place[key] = override.text if value is None and override.variable else value
    return (*path, key)


def replace(tree: Any, path: Path, value: object) -> None:
    for key in path[:-1]:
        tree = tree[key]
    tree[path[-1]] = value


def _steps(path: str) -> tuple[str, ...]:
    steps: list[str] = []
    for part in path.split("."):
        match = _STEP.fullmatch(part)
        if match is None:
            return ()
        steps += [match[1], *_INDEX.findall(match[2])]
    return tuple(steps)


def _key(place: Any, step: str, override: Override) -> str | int:
    if isinstance(place, dict):
        return step
    if isinstance(place, list):
        names = [item.get("name") if isinstance(item, dict) else None for item in place]
        # A variable's name has no hyphen.
        wanted = [name for name in names if name == step or (override.variable and str(name).replace("-", "_") == step)]
        if len(wanted) == 1:
            return names.index(wanted[0])
        if _INDEX.fullmatch(step) and int(step) < len(place):
            return int(step)
    problem = Problem(
        override.variable or f"--set {format_path(override.steps)}",
        code="OVERRIDE_PATH",
        reason="leads to no place in the configuration",
        remedy="Name existing sections; an entry of a list by its name or its number from 0.",
    )
    raise ConfigError("the configuration is refused", problems=(problem,))


def _value(text: str) -> object:
    """Text that is no YAML stays text: a password may hold anything."""
    if text[:1] in ("[", "{"):
        try:
            return parse_text(text)
        except ConfigError:
            return text
    return parse_scalar(text) if text else ""
