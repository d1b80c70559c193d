"""Servers and services of one machine, started as fast as their dependencies allow, stopped in order.

    processor, admin ──at once──▶ (they wait for the servers by themselves)
    servers, side by side ──ready──▶ reader

Stopping: services first, all at once, then the servers. Invariant: `stop` leaves no process behind, also when the
start was cut off.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tidegate.errors import ConfigError
from tidegate.stack.jars import ensure
from tidegate.stack.jvm import find_java
from tidegate.stack.supervisor import Observe, Service, ServiceStatus, Supervisor
from tidegate_admin.demo.place import Place

SERVICES = ("reader", "processor", "admin")
JARS_VARIABLE = "TIDEGATE_SPARK_JARS"


@dataclass(frozen=True, slots=True)
class FleetPlan:
    place: Place
    config: Path
    overrides: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


class Fleet:
    def __init__(self, plan: FleetPlan, observe: Observe = lambda _status: None) -> None:
        self._early = Supervisor(
            [_service(plan, "processor", _processor_environment(plan.place)), _service(plan, "admin", {})],
            plan.place.run,
            observe=observe,
        )
        self._late = Supervisor([_service(plan, "reader", {})], plan.place.run, observe=observe)
        self._late_started = False

    def start_early(self) -> None:
        self._early.start()

    def start_reader(self) -> None:
        self._late.start()
        self._late_started = True

    def stop(self) -> None:
        """The reader first, so that what it has read is delivered; then the others at once. May be called twice."""
        if self._late_started:
            self._late.stop()
        self._early.stop()

    def status(self) -> tuple[ServiceStatus, ...]:
        return (*self._late.status(), *self._early.status())


def log_of(place: Place, service: str) -> Path:
    return place.logs / f"{service}.log"


def _service(plan: FleetPlan, name: str, environment: Mapping[str, str]) -> Service:
    overrides = [part for override in plan.overrides for part in ("--set", override)]
    return Service(
        name=name,
        argv=(str(_script(f"tidegate-{name}")), "--config", str(plan.config), *overrides),
        log=log_of(plan.place, name),
        environment={**plan.environment, **environment},
        folder=plan.place.scratch,
    )


def _script(name: str) -> Path:
    script = Path(sys.executable).with_name(name)
    if not script.exists():
        raise ConfigError(
            f"{name} is not installed beside this Python",
            code="FLEET_INCOMPLETE",
            remedy="Install the whole workspace: uv sync --all-packages.",
        )
    return script


def _processor_environment(place: Place) -> dict[str, str]:
    java = find_java().resolve()
    return {
        "JAVA_HOME": str(java.parent.parent),
        JARS_VARIABLE: os.pathsep.join(str(jar) for jar in ensure("spark")),
        "SPARK_LOCAL_DIRS": str(place.scratch),
        "TMPDIR": str(place.scratch),
    }
