"""A configuration that is read again while lanes run: by SIGHUP, or because the file has changed.

| read again                                | what follows                                                          |
| ----------------------------------------- | --------------------------------------------------------------------- |
| it can't be read, or is refused           | the one before stays in force; log, /readyz and a metric say so       |
| more has changed than transforms, routes  | the same: what is changed else asks for a restart                     |
| transforms or routes have changed         | lanes that they are of are drained and go on by the new ones          |
| nothing has changed that an event shows   | nothing                                                               |

Invariant: what is in force is whole: the file as it was at one moment, taken in all its parts or in none.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tidegate.config.epoch import config_epoch, lane_epoch
from tidegate.config.pipeline import PipelineConfig
from tidegate.errors import ConfigError, Problem
from tidegate.observability import logs

_LOOK_SECONDS = 1.0
_HOT = frozenset({"transforms", "routes"})

_log = logs.get("processor")


class Reloads:
    """Asked by the driver at each tick; a signal handler may only call `ask`."""

    def __init__(
        self,
        path: Path,
        config: PipelineConfig,
        load: Callable[[], PipelineConfig],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.in_force = config
        self.refusal: ConfigError | None = None
        """Why what is on disk is not what is in force."""
        self._path, self._load, self._now = path, load, now
        self._asked = False
        self._seen = self._signature()
        self._settling: tuple[int, ...] | None = None
        self._next_look = now() + _LOOK_SECONDS

    def ask(self) -> None:
        self._asked = True

    def look(self) -> set[str]:
        """The sinks whose lanes have something else to go by from now on."""
        if not self._asked and not self._has_changed():
            return set()
        self._asked = False
        self._seen, self._settling = self._signature(), None
        try:
            new = self._load()
            _check_hot(self.in_force, new)
        except ConfigError as error:
            self.refusal = error
            problems = [f"{problem.path}: {problem.code}" for problem in error.problems]
            _log.error("config_refused", code=error.code, problems=problems, in_force=config_epoch(self.in_force))
            return set()
        self.refusal = None
        before, self.in_force = self.in_force, new
        _log.info("config_loaded", before=config_epoch(before), in_force=config_epoch(new))
        sinks = [sink.name for sink in new.sinks]
        return {sink for sink in sinks if lane_epoch(before, sink) != lane_epoch(new, sink)}

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


def _check_hot(old: PipelineConfig, new: PipelineConfig) -> None:
    changed = tuple(_changed(_plain(old), _plain(new), ""))
    if changed:
        raise ConfigError(
            "the configuration has changed where only a restart takes it over",
            code="CONFIG_NEEDS_RESTART",
            remedy="Restart the services, or take the change back; transforms and routes alone are taken over at once.",
            problems=tuple(
                Problem(path, "CONFIG_NEEDS_RESTART", "has changed", "Restart the services.") for path in changed
            ),
        )


def _plain(config: PipelineConfig) -> dict[str, Any]:
    values = config.model_dump(mode="json", by_alias=True)
    values["sinks"] = {sink["name"]: sink for sink in values["sinks"]}
    return values


def _changed(old: Any, new: Any, path: str) -> Iterator[str]:
    """Paths, as precise as sections and names of sinks are."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        if old != new:
            yield path
        return
    for key in sorted(old.keys() | new.keys()):
        inner = f"{path}.{key}" if path else str(key)
        is_hot = key in _HOT and (not path or path.startswith("sinks."))
        if not is_hot:
            yield from _changed(old.get(key), new.get(key), inner)
