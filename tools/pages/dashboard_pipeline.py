"""The dashboard "pipeline", as Grafana loads it: compose.yaml mounts it, the chart puts it into a ConfigMap."""

from pathlib import Path

from panels.dashboards import PIPELINE
from panels.model import to_json

PATH = "helm/tidegate/dashboards/pipeline.json"


def render(_root: Path) -> str:
    return to_json(PIPELINE)
