"""How the parts of a service are, and since when: what /healthz and /readyz answer.

Invariant: a component is `down` until it has said otherwise, and the service is ready only when none is.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum


class State(StrEnum):
    UP = "up"
    DEGRADED = "degraded"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class Component:
    state: State
    reason: str
    since: datetime


class Health:
    """Written by the stages, read by the HTTP server; one assignment is one change, so no lock is needed."""

    def __init__(self, components: Iterable[str], now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._components = {name: _starting(now()) for name in components}

    def know(self, components: Iterable[str]) -> None:
        """Of these alone from now on; what is new is down until it has said otherwise."""
        known = self._components
        self._components = {name: known.get(name) or _starting(self._now()) for name in components}

    def up(self, component: str, reason: str = "") -> None:
        self._set(component, State.UP, reason)

    def degraded(self, component: str, reason: str) -> None:
        self._set(component, State.DEGRADED, reason)

    def down(self, component: str, reason: str) -> None:
        self._set(component, State.DOWN, reason)

    @property
    def state(self) -> State:
        states = {component.state for component in self._components.values()}
        return next((state for state in (State.DOWN, State.DEGRADED) if state in states), State.UP)

    @property
    def is_ready(self) -> bool:
        return self.state is not State.DOWN

    @property
    def components(self) -> dict[str, Component]:
        return dict(self._components)

    def report(self) -> dict[str, object]:
        """As JSON: what an operator, a probe and the admin page read."""
        return {
            "state": self.state,
            "components": {
                name: {
                    "state": component.state,
                    "reason": component.reason,
                    "since": component.since.isoformat(timespec="seconds").replace("+00:00", "Z"),
                }
                for name, component in self._components.items()
            },
        }

    def _set(self, name: str, state: State, reason: str) -> None:
        before = self._components[name]
        if before.state is state and before.reason == reason:
            return
        since = before.since if before.state is state else self._now()
        self._components[name] = Component(state, reason, since)


def _starting(now: datetime) -> Component:
    return Component(State.DOWN, "starting", now)
