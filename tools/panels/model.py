"""Panels, rows and dashboards, and the JSON that Grafana loads.

Invariant: equal input gives equal text, so `make generate` leaves no difference.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

DOCS = "https://github.com/tidegate/tidegate/blob/main/docs/operations"
SCHEMA_VERSION = 39
"""Grafana 11; later ones migrate it."""
_COLUMNS = 24
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
P_OR_NONE = 'pipeline=~"$pipeline|"'
"""Of alerts: that the admin service is gone is of no pipeline, and shown beside each."""


class Unit(StrEnum):
    BYTES = "bytes"
    BYTES_A_SECOND = "Bps"
    SECONDS = "s"
    COUNT = "short"
    A_SECOND = "ops"
    PER_MINUTE = "opm"
    SHARE = "percentunit"
    CORES = "none"
    BOOLEAN = "bool"
    TIME = "dateTimeFromNow"


class Kind(StrEnum):
    GRAPH = "timeseries"
    STAT = "stat"
    TABLE = "table"
    STATES = "state-timeline"


@dataclass(frozen=True, slots=True)
class Query:
    expression: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    description: str
    queries: tuple[Query, ...]
    unit: Unit
    kind: Kind = Kind.GRAPH
    width: int = 12
    height: int = 8
    warn: float | None = None
    alarm: float | None = None
    low_is_bad: bool = False
    """Thresholds are floors, not ceilings."""
    runbook: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Dashboard:
    name: str
    title: str
    description: str
    rows: tuple[Row, ...]
    variables: tuple[str, ...] = ("pipeline",)
    tags: tuple[str, ...] = field(default=("tidegate",))


def query(expression: str, legend: str = "") -> Query:
    return Query(" ".join(expression.split()), legend)


def to_json(dashboard: Dashboard) -> str:
    document = {
        "uid": f"tidegate-{dashboard.name}",
        "title": f"Tidegate / {dashboard.title}",
        "description": dashboard.description,
        "tags": list(dashboard.tags),
        "schemaVersion": SCHEMA_VERSION,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "links": list(_LINKS),
        "annotations": {"list": [_ALERTS]},
        "templating": {"list": [_DATASOURCE, *(_VARIABLES[name] for name in dashboard.variables)]},
        "panels": _panels(dashboard.rows),
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


_LINKS = (
    {"type": "dashboards", "title": "Tidegate", "tags": ["tidegate"], "asDropdown": True, "includeVars": True,
     "keepTime": True, "targetBlank": False},
    {"type": "link", "title": "Alerts", "url": "/alerting/list?search=Tidegate", "icon": "bolt", "targetBlank": False,
     "tooltip": "The rules, and which of them fire"},
    {"type": "link", "title": "Runbooks", "url": f"{DOCS}/index.md", "icon": "doc", "targetBlank": True,
     "tooltip": "A page for each alert"},
)  # fmt: skip
_ALERTS = {
    "name": "Alerts",
    "enable": True,
    "iconColor": "red",
    "datasource": _SOURCE,
    "expr": f'ALERTS{{alertname=~"Tidegate.+", alertstate="firing", {P_OR_NONE}}}',
    "titleFormat": "{{alertname}} {{sink}}",
}
_DATASOURCE = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "hide": 0}


def _variable(name: str, label: str, expression: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": expression, "refId": name},
        "definition": expression,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": {"text": "All", "value": "$__all"},
    }


_VARIABLES = {
    "pipeline": _variable("pipeline", "Pipeline", "label_values(tidegate_admin_pipeline_ready_ratio, pipeline)"),
    "sink": _variable("sink", "Sink", 'label_values(tidegate_admin_lane_lag_bytes{pipeline=~"$pipeline"}, sink)'),
}


def _panels(rows: Sequence[Row]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    y = 0
    for row in rows:
        found.append(_row(row.title, len(found) + 1, y))
        y += 1
        x = tallest = 0
        for panel in row.panels:
            if x + panel.width > _COLUMNS:
                x, y, tallest = 0, y + tallest, 0
            found.append(_panel(panel, len(found) + 1, x, y))
            x += panel.width
            tallest = max(tallest, panel.height)
        y += tallest
    return found


def _row(title: str, number: int, y: int) -> dict[str, Any]:
    grid = {"h": 1, "w": _COLUMNS, "x": 0, "y": y}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": grid}


def _panel(panel: Panel, number: int, x: int, y: int) -> dict[str, Any]:
    document: dict[str, Any] = {
        "id": number,
        "type": panel.kind.value,
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "gridPos": {"h": panel.height, "w": panel.width, "x": x, "y": y},
        "targets": [_target(panel, index, each) for index, each in enumerate(panel.queries)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _options(panel.kind),
    }
    if panel.runbook:
        link = {"title": "Runbook", "url": f"{DOCS}/{panel.runbook}.md", "targetBlank": True}
        document["links"] = [link]
    return document


def _target(panel: Panel, index: int, each: Query) -> dict[str, Any]:
    instant = panel.kind in (Kind.STAT, Kind.TABLE)
    target = {"refId": chr(ord("A") + index), "datasource": _SOURCE, "expr": each.expression, "instant": instant,
              "range": not instant, "legendFormat": each.legend or "__auto"}  # fmt: skip
    return target | ({"format": "table"} if panel.kind is Kind.TABLE else {})


def _defaults(panel: Panel) -> dict[str, Any]:
    steps = [{"color": "red" if panel.low_is_bad and panel.alarm is not None else "green", "value": None}]
    colours = ("yellow", "green") if panel.low_is_bad else ("yellow", "red")
    bounds = (panel.alarm, panel.warn) if panel.low_is_bad else (panel.warn, panel.alarm)
    steps += [{"color": c, "value": v} for c, v in zip(colours, bounds, strict=True) if v is not None]
    defaults: dict[str, Any] = {"unit": panel.unit.value, "thresholds": {"mode": "absolute", "steps": steps}}
    defaults["color"] = {"mode": "thresholds" if panel.kind is not Kind.GRAPH else "palette-classic"}
    if panel.kind is Kind.GRAPH:
        lines = "line" if len(steps) > 1 else "off"
        defaults["min"] = 0
        defaults["custom"] = {"fillOpacity": 10, "showPoints": "never", "thresholdsStyle": {"mode": lines}}
    return defaults


def _options(kind: Kind) -> dict[str, Any]:
    match kind:
        case Kind.GRAPH:
            return {"legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"]},
                    "tooltip": {"mode": "multi", "sort": "desc"}}  # fmt: skip
        case Kind.STAT:
            options = {"textMode": "value_and_name", "colorMode": "background"}
            return {"reduceOptions": {"calcs": ["lastNotNull"]}, **options}
        case Kind.STATES:
            legend = {"displayMode": "list", "placement": "bottom"}
            return {"showValue": "never", "mergeValues": True, "legend": legend}
        case Kind.TABLE:
            return {"showHeader": True}
