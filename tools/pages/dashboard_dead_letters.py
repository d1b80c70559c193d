"""The dashboard "dead-letters", as Grafana loads it: compose.yaml mounts it, the chart puts it into a ConfigMap."""

from pathlib import Path

from panels.dashboards import DEAD_LETTERS
from panels.model import to_json

PATH = "helm/tidegate/dashboards/dead-letters.json"


def render(_root: Path) -> str:
    return to_json(DEAD_LETTERS)
