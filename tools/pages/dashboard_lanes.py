"""The dashboard "lanes", as Grafana loads it: compose.yaml mounts it, the chart puts it into a ConfigMap."""

from pathlib import Path

from panels.lanes import LANES
from panels.model import to_json

PATH = "helm/tidegate/dashboards/lanes.json"


def render(_root: Path) -> str:
    return to_json(LANES)
