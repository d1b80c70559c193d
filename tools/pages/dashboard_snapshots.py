"""The dashboard "snapshots", as Grafana loads it: compose.yaml mounts it, the chart puts it into a ConfigMap."""

from pathlib import Path

from panels.model import to_json
from panels.snapshots import SNAPSHOTS

PATH = "helm/tidegate/dashboards/snapshots.json"


def render(_root: Path) -> str:
    return to_json(SNAPSHOTS)
