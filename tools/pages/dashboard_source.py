"""The dashboard "source", as Grafana loads it: compose.yaml mounts it, the chart puts it into a ConfigMap."""

from pathlib import Path

from panels.dashboards import SOURCE
from panels.model import to_json

PATH = "helm/tidegate/dashboards/source.json"


def render(_root: Path) -> str:
    return to_json(SOURCE)
