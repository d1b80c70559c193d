"""The compose stack of this checkout, as the checks ask it."""

import json
import os
import subprocess

from ship.queries import ROOT

PROFILES = "demo,observability"
# Grafana has no stand-in: where its image can be pulled, SHIP_GRAFANA=1 starts it too.
UNTRIED = () if os.environ.get("SHIP_GRAFANA") else ("grafana",)


def compose(*arguments: str, check: bool = True, given: str | None = None, **environment: str) -> str:
    command = ["docker", "compose", "--project-directory", str(ROOT), *arguments]
    settings = {**os.environ, "COMPOSE_PROFILES": PROFILES, **environment}
    done = subprocess.run(command, env=settings, input=given, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 or not check, done.stderr[-3000:]
    return done.stdout


def services() -> list[str]:
    return [name for name in compose("config", "--services").split() if name not in UNTRIED]


def container(service: str) -> dict[str, object]:
    (identity,) = compose("ps", "-aq", service).split()
    found = subprocess.run(["docker", "inspect", identity], capture_output=True, text=True, check=True)
    document: dict[str, object] = json.loads(found.stdout)[0]
    return document


def state(service: str) -> dict[str, object]:
    return container(service)["State"]  # type: ignore[return-value]


def within(service: str, code: str) -> str:
    """What it prints there: images have a Python and no shell."""
    return compose("exec", "-T", service, "/app/bin/python", "-I", "-c", code)
