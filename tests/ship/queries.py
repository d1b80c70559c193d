"""What dashboards and alerts ask Prometheus, and the metrics that they ask for."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "helm" / "tidegate"
RULES = CHART / "rules" / "tidegate.yaml"
METRIC = re.compile(r"\b(tidegate_[a-z0-9_]+|process_[a-z_]+)\b")
LABEL_VALUES = re.compile(r"^label_values\((.+), \w+\)$")


@dataclass(frozen=True, slots=True)
class Asked:
    where: str
    expression: str

    @property
    def metrics(self) -> frozenset[str]:
        return frozenset(METRIC.findall(self.expression))

    def filled(self, pipeline: str) -> str:
        """As Grafana would send it with every variable at All, for one pipeline."""
        text = self.expression.replace("$__rate_interval", "1m").replace("$pipeline", pipeline)
        return text.replace("$sink", ".+")


def dashboards() -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text()) for path in sorted((CHART / "dashboards").glob("*.json"))}


def panels(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def asked_by_panels() -> Iterator[Asked]:
    for name, dashboard in dashboards().items():
        for panel in panels(dashboard):
            for target in panel["targets"]:
                yield Asked(f"{name}: {panel['title']}", target["expr"])


def asked_by_variables() -> Iterator[Asked]:
    """What is looked through for the values of a variable's label."""
    for name, dashboard in dashboards().items():
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                (found,) = LABEL_VALUES.findall(variable["query"]["query"])
                yield Asked(f"{name}: variable {variable['name']}", found)


def asked_by_annotations() -> Iterator[Asked]:
    for name, dashboard in dashboards().items():
        for annotation in dashboard["annotations"]["list"]:
            yield Asked(f"{name}: annotation {annotation['name']}", annotation["expr"])


def asked_by_dashboards() -> Iterator[Asked]:
    yield from asked_by_panels()
    yield from asked_by_variables()
    yield from asked_by_annotations()


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def asked_by_alerts() -> Iterator[Asked]:
    for alert in alerts():
        yield Asked(alert["alert"], alert["expr"])
