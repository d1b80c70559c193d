"""The dashboard "fleet", as Grafana loads it: compose.yaml mounts it, the chart puts it into a ConfigMap."""

from pathlib import Path

from panels.dashboards import FLEET
from panels.model import to_json

PATH = "helm/tidegate/dashboards/fleet.json"


def render(_root: Path) -> str:
    return to_json(FLEET)
