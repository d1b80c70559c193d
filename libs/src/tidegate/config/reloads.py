"""A configuration that is read again while a service runs: by SIGHUP, or because the file has changed.

| read again                                  | what follows                                                        |
| ------------------------------------------- | ------------------------------------------------------------------- |
| it can't be read, or is refused             | the one before stays in force; log, /readyz and a metric say so     |
| more has changed than transforms, routes    | the same: what is changed else asks for a restart                   |
| and which sinks there are                   |                                                                     |
| only that                                   | it is in force, and the service makes good what is different        |
| nothing                                     | nothing                                                             |

A sink is known by its name: one that keeps it and has other options asks for a restart, or leaves in one file and comes
back in the next. Each service takes the file over at its own moment, and may refuse what another one takes.
Invariant: what is in force is whole: the file as it was at one moment, taken in all its parts or in none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.errors import ConfigError, Problem, TidegateError
from tidegate.observability import logs

if TYPE_CHECKING:
    from tidegate.config.pipeline import PipelineConfig

_LOOK_SECONDS = 1.0
_HOT = frozenset({"transforms", "routes"})


class Reloads:
    """Asked by its service now and then; a signal handler may only call `ask`."""

    def __init__(
        self,
        service: str,
        path: Path,
        config: PipelineConfig,
        load: Callable[[], PipelineConfig],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.in_force = config
        self.refusal: TidegateError | None = None
        """Why what is on disk is not what is in force."""
        self._log = logs.get(service)
        self._path, self._load, self._now = path, load, now
        self._asked = False
        self._seen = self._signature()
        self._settling: tuple[int, ...] | None = None
        self._next_look = now() + _LOOK_SECONDS

    def ask(self) -> None:
        self._asked = True

    def look(self) -> PipelineConfig | None:
        """What was in force until now, if that is another one from now on."""
        new = self.read() if self.is_due() else None
        return None if new is None else self.take(new)

    def is_due(self) -> bool:
        return self._asked or self._has_changed()

    def read(self) -> PipelineConfig | None:
        """What the file says, if that may be in force; else why not is said."""
        self._asked = False
        self._seen, self._settling = self._signature(), None
        try:
            new = self._load()
            _check_hot(self.in_force, new)
        except ConfigError as error:
            self.refuse(error)
            return None
        return new

    def take(self, new: PipelineConfig) -> PipelineConfig:
        self.refusal = None
        before, self.in_force = self.in_force, new
        was, now = names(before), names(new)
        self._log.info("config_loaded", added=sorted(now - was), removed=sorted(was - now))
        return before

    def refuse(self, error: TidegateError) -> None:
        self.refusal = error
        problems = [f"{problem.path}: {problem.code}" for problem in problems_of(error)]
        self._log.error("config_refused", code=error.code, message=error.message, problems=problems)

    @property
    def complaint(self) -> str | None:
        """For /readyz; none while the file is in force."""
        if self.refusal is None:
            return None
        first = next((f"{each.path}: {each.code}" for each in problems_of(self.refusal)), self.refusal.code)
        return f"the file is refused, the one before is in force: {first}"

    def _has_changed(self) -> bool:
        """Once it stands still: an editor may write in pieces."""
        if self._now() < self._next_look:
            return False
        self._next_look = self._now() + _LOOK_SECONDS
        signature = self._signature()
        is_settled = signature == self._settling
        self._settling = signature
        return is_settled and signature != self._seen

    def _signature(self) -> tuple[int, ...]:
        """Of the file, not of a link to it: an orchestrator exchanges links."""
        try:
            found = self._path.stat()
        except OSError:
            return ()
        return found.st_mtime_ns, found.st_size, found.st_ino


def names(config: PipelineConfig) -> set[str]:
    return {sink.name for sink in config.sinks}


def problems_of(error: TidegateError) -> tuple[Problem, ...]:
    return error.problems if isinstance(error, ConfigError) else ()


def needs_restart(old: PipelineConfig, new: PipelineConfig) -> tuple[str, ...]:
    """Paths of what is different and is taken over by a restart alone."""
    return tuple(_changed(_by_name(old.document), _by_name(new.document), ""))


def is_hot(path: str, *, is_of_both: bool = False) -> bool:
    """Whether a difference there is taken over at once; a sink as a whole, if only one of the two files names it."""
    match path.split("."):
        case [key] | ["sinks", _, key]:
            return key in _HOT
        case ["sinks", _]:
            return not is_of_both
        case _:
            return False


def _check_hot(old: PipelineConfig, new: PipelineConfig) -> None:
    changed = needs_restart(old, new)
    if changed:
        raise ConfigError(
            "the configuration has changed where only a restart takes it over",
            code="CONFIG_NEEDS_RESTART",
            remedy="Restart the services, or take the change back; transforms, routes, and sinks that come or go are "
            "taken over at once.",
            problems=tuple(
                Problem(path, "CONFIG_NEEDS_RESTART", "has changed", "Restart the services.") for path in changed
            ),
        )


def _by_name(document: dict[str, Any]) -> dict[str, Any]:
    return document | {"sinks": {sink["name"]: sink for sink in document["sinks"]}}


def _changed(old: Any, new: Any, path: str) -> Iterator[str]:  # plain JSON
    """Paths, as precise as sections and names of sinks are."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        if old != new:
            yield path
        return
    for key in sorted(old.keys() | new.keys()):
        inner = f"{path}.{key}" if path else str(key)
        is_of_both = key in old and key in new
        if not is_hot(inner, is_of_both=is_of_both):
            yield from _changed(old.get(key), new.get(key), inner)
