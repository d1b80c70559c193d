"""The dashboard "spark", as Grafana loads it: compose.yaml mounts it, the chart puts it into a ConfigMap."""

from pathlib import Path

from panels.model import to_json
from panels.spark import SPARK

PATH = "helm/tidegate/dashboards/spark.json"


def render(_root: Path) -> str:
    return to_json(SPARK)
