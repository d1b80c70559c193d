"""The dashboard "spark", as Grafana loads it: compose.yaml mounts it, the chart puts it into a ConfigMap."""

from pathlib import Path

from panels.dashboards import PROCESSES
from panels.model import to_json

PATH = "helm/tidegate/dashboards/spark.json"


def render(_root: Path) -> str:
    return to_json(PROCESSES)
