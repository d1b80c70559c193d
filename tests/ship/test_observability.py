"""Dashboards and alerts: what they ask for exists, what a linter asks of them is there, and each alert has its page."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ship.queries import (
    CHART,
    ROOT,
    RULES,
    Asked,
    alerts,
    asked_by_alerts,
    asked_by_annotations,
    asked_by_dashboards,
    asked_by_panels,
    dashboards,
    panels,
)
from tidegate.config.load import load_pipeline
from tidegate_admin.metrics import AdminMetrics
from tidegate_admin.pipelines.watch import Watch
from tidegate_processor.metrics import ProcessorMetrics
from tidegate_reader.metrics import ReaderMetrics
from tidegate_reader.progress import Progress

UNIT_TESTS = Path(__file__).parent / "alerts" / "alerts.test.yaml"
RUNBOOKS = ROOT / "docs" / "operations"
PROCESS = {f"process_{thing}" for thing in ("cpu_seconds_total", "open_fds", "resident_memory_bytes")} | {
    "process_start_time_seconds"
}


def declared() -> set[str]:
    config = load_pipeline(ROOT / "docker/compose/pipeline.yaml", environ={}, secrets=())
    found = [
        *ReaderMetrics(Progress("shop", 1), ["events"]).all.declarations,
        *ProcessorMetrics(["events"]).all.declarations,
        *AdminMetrics(Watch([config])).declarations,
    ]
    return {declaration.name for declaration in found} | PROCESS


@pytest.fixture(scope="session")
def promtool() -> str:
    done = subprocess.run([sys.executable, ROOT / "tools" / "promtool.py"], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(done.stderr.strip())
    return done.stdout.strip()


def test_every_metric_that_is_asked_for_is_declared() -> None:
    """A panel or an alert on a metric that nobody declares stays empty for ever and looks like peace."""
    names = declared()
    missing = {
        (asked.where, metric)
        for asked in (*asked_by_dashboards(), *asked_by_alerts())
        for metric in asked.metrics
        if metric not in names
    }
    assert set() == missing


def test_every_declared_metric_is_shown() -> None:
    """A figure that no panel shows is one that nobody misses, or one that is missed when it is needed."""
    shown = {metric for asked in asked_by_panels() for metric in asked.metrics}
    assert set() == {name for name in declared() if name.startswith("tidegate_")} - shown


@pytest.mark.parametrize("name", dashboards())
def test_a_dashboard_is_what_a_linter_asks_for(name: str) -> None:
    dashboard = dashboards()[name]
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert {"datasource", "pipeline"} <= variables
    for panel in panels(dashboard):
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            assert "$pipeline" in target["expr"] or "job=~" in target["expr"], panel["title"]


@pytest.mark.parametrize("asked", list(asked_by_panels()), ids=lambda asked: asked.where)
def test_a_rate_is_of_an_interval_that_has_two_scrapes_in_it(asked: Asked) -> None:
    """Whatever the interval of the scrape is: Grafana knows it."""
    assert set(re.findall(r"\brate\([^[]*\[([^]]*)\]", asked.expression)) <= {"$__rate_interval"}


def test_the_linters_rules_that_are_not_ours_are_named_with_a_reason() -> None:
    """Its others are kept: the tests above, and what these dashboards go by instead of job and instance."""
    excluded = yaml.safe_load((CHART / "dashboards" / ".lint").read_text())["exclusions"]
    kinds = {f"{place}-{label}-rule" for place in ("template", "target") for label in ("job", "instance")}
    assert set(excluded) == kinds
    assert all(rule["reason"] for rule in excluded.values())


@pytest.mark.parametrize("name", dashboards())
def test_panels_do_not_overlap(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboards()[name]["panels"]:
        grid = panel["gridPos"]
        cells = {
            (x, y) for x in range(grid["x"], grid["x"] + grid["w"]) for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert not taken & cells, panel["title"]
        assert grid["x"] + grid["w"] <= 24
        taken |= cells


def test_links_of_panels_and_alerts_lead_to_runbooks_that_exist() -> None:
    linked = {
        link["url"] for each in dashboards().values() for panel in panels(each) for link in panel.get("links", ())
    }
    linked |= {alert["annotations"]["runbook_url"] for alert in alerts()}
    assert set() == {url for url in linked if not (RUNBOOKS / url.rpartition("/")[2]).is_file()}


@pytest.mark.parametrize("name", dashboards())
def test_a_dashboard_leads_to_the_others_to_the_alerts_and_to_the_runbooks(name: str) -> None:
    links = {link["title"]: link for link in dashboards()[name]["links"]}
    assert set(links) == {"Tidegate", "Alerts", "Runbooks"}
    assert links["Tidegate"]["tags"] == ["tidegate"]
    assert links["Alerts"]["url"].startswith("/alerting/list")
    assert (RUNBOOKS / links["Runbooks"]["url"].rpartition("/")[2]).is_file()


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_an_alert_says_what_where_and_how_bad(alert: dict[str, dict[str, str]]) -> None:
    assert {"summary", "description", "runbook_url"} <= set(alert["annotations"])
    assert alert["labels"]["severity"] in ("critical", "warning")
    assert f'alertname="{alert["alert"]}"' in UNIT_TESTS.read_text(), "it has a unit test"


def test_rules_are_taken_by_prometheus(promtool: str) -> None:
    done = subprocess.run(
        [promtool, "check", "rules", "--lint=all", "--lint-fatal", RULES], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_alerts_fire_when_they_should(promtool: str) -> None:
    done = subprocess.run([promtool, "test", "rules", UNIT_TESTS], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def answers(
    promtool: str, folder: Path, expression: str, series: dict[str, str], expected: dict[str, float]
) -> "subprocess.CompletedProcess[str]":
    """Whether a query gives this, after a quarter of an hour, in a Prometheus that has these series and our alerts."""
    samples = [{"labels": labels, "value": value} for labels, value in expected.items()]
    asked = {"expr": expression, "eval_time": "15m", "exp_samples": samples}
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    test = {"interval": "1m", "input_series": inputs, "promql_expr_test": [asked]}
    file = folder / "asked.test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}))
    return subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True)


def panel(title: str) -> dict[str, Any]:
    (found,) = (each for each in panels(dashboards()["fleet"]) if each["title"] == title)
    return found


def colour(shown: dict[str, Any], value: float) -> str:
    steps = shown["fieldConfig"]["defaults"]["thresholds"]["steps"]
    return str([each["color"] for each in steps if each["value"] is None or each["value"] <= value][-1])


def test_one_reader_of_two_that_is_down_is_seen_on_the_fleet(promtool: str, tmp_path: Path) -> None:
    up = {
        'up{job="tidegate-reader", pipeline="shop"}': "1x20",
        'up{job="tidegate-reader", pipeline="other"}': "0x20",
        'up{job="tidegate-admin"}': "1x20",
    }
    shown = panel("Services up")
    expected = {'{job="tidegate-reader"}': 0.5, '{job="tidegate-admin"}': 1}
    done = answers(promtool, tmp_path, shown["targets"][0]["expr"], up, expected)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [colour(shown, value) for value in expected.values()] == ["red", "green"]


@pytest.mark.parametrize("pipeline", [".+", "shop"])
def test_an_admin_service_that_is_gone_is_told_beside_every_pipeline(
    promtool: str, tmp_path: Path, pipeline: str
) -> None:
    """Its alert then names no pipeline."""
    alert = 'ALERTS{alertname="TidegateAdminBlind", alertstate="firing", severity="warning"}'
    count = Asked("fleet", panel("Alerts firing")["targets"][0]["expr"])
    expected = [
        (count, {'{severity="warning"}': 1.0, "{}": 0.0}),
        *((each, {alert: 1.0}) for each in asked_by_annotations()),
    ]
    for asked, samples in expected:
        series = {'up{job="tidegate-reader", pipeline="shop"}': "1x30"}
        done = answers(promtool, tmp_path, asked.filled(pipeline), series, samples)
        assert done.returncode == 0, asked.where + done.stdout + done.stderr


def test_the_chart_ships_what_compose_mounts() -> None:
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    mounted = " ".join(compose["services"]["grafana"]["volumes"] + compose["services"]["prometheus"]["volumes"])
    assert all(f"./helm/tidegate/{folder}" in mounted for folder in ("dashboards", "rules"))
    assert CHART.is_dir()
