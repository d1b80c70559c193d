"""Refusals, headers, what is shown. No server answers behind these pipelines, and the service says so."""

import asyncio
from dataclasses import asdict

import pytest
from kit.admin import NOW, Api, make_app, make_config, with_a_look
from prometheus_client.parser import text_string_to_metric_families

from tidegate_admin.errors import MEDIA_TYPE
from tidegate_admin.health.endpoints import router
from tidegate_admin.health.schemas import Readiness
from tidegate_admin.pipelines.schemas import PipelineList, PipelineModel
from tidegate_admin.pipelines.watch import Watch
from tidegate_admin.security.scopes import Scope, needs


@pytest.fixture
def api() -> Api:
    return Api(make_app())


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "NOT_FOUND"),
        ("GET", "/api/v1/pipelines/other", 404, "PIPELINE_UNKNOWN"),
        ("GET", "/api/v1/pipelines/shop", 503, "PIPELINE_NOT_SEEN"),
        ("GET", f"/api/v1/pipelines/{'x' * 65}", 422, "REQUEST_INVALID"),
        ("POST", "/healthz", 405, "METHOD_NOT_ALLOWED"),
    ],
)
def test_every_refusal_is_a_problem_document(api: Api, method: str, path: str, status: int, code: str) -> None:
    answer = api.request(method, path)
    problem = answer.json()
    assert (answer.status_code, answer.headers["content-type"]) == (status, MEDIA_TYPE)
    assert (problem["status"], problem["code"]) == (status, code)
    assert problem["remedy"]
    assert problem["type"] == f"urn:tidegate:problem:{code.lower().replace('_', '-')}"


def test_a_failure_of_ours_shows_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a number, under which the log tells more."""
    monkeypatch.setattr(router, "routes", list(router.routes))

    @router.get("/broken")
    @needs(Scope.READ)
    def broken() -> None:
        raise RuntimeError("row value 4711")

    answer = Api(make_app()).get("/broken")
    assert (answer.status_code, answer.json()["code"]) == (500, "INTERNAL")
    assert answer.json()["instance"].startswith("urn:uuid:")
    assert "4711" not in answer.text


def test_a_refused_field_is_named_and_its_value_is_not_repeated(api: Api) -> None:
    answer = api.get(f"/api/v1/pipelines/{'hunter2' * 12}")
    assert [field["pointer"] for field in answer.json()["errors"]] == ["/path/name"]
    assert "hunter2" not in str(answer.json()["errors"])


def test_readiness_names_every_part(api: Api) -> None:
    answer = api.get("/readyz")
    assert answer.status_code == 503
    assert set(answer.json()["components"]) == {
        f"shop/{part}" for part in ("redis", "reader", "slot", "lane/events", "lane/extra")
    }
    assert all(set(part) == {"state", "reason", "since"} for part in answer.json()["components"].values())


def test_readiness_is_told_as_it_is_at_this_moment() -> None:
    """Texts are kept, and the next answer has what has changed: a reason too, which does not touch since when."""
    application = with_a_look(make_app())
    health = application.state.deps.watch.health
    for change in (
        lambda: None,
        lambda: health.down("shop/lane/events", 'it said "no"\n'),
        lambda: health.down("shop/lane/events", "it says more"),
        lambda: health.up("shop/lane/events"),
    ):
        change()
        answer = Api(application).get("/readyz")
        assert answer.status_code == (200 if health.is_ready else 503)
        assert Readiness.model_validate_json(answer.text).model_dump() == {
            "state": health.state,
            "components": {name: asdict(component) for name, component in health.components.items()},
        }


def test_all_pipelines_are_told_as_each_is() -> None:
    """Written from kept texts: what comes out is what the schema says, and the next look replaces it."""
    application = with_a_look(make_app())
    api = Api(application)
    first = PipelineList.model_validate_json(api.get("/api/v1/pipelines").text)
    assert [PipelineModel.model_validate_json(api.get("/api/v1/pipelines/shop").text)] == first.items
    assert first.next_cursor is None
    with_a_look(application, time=NOW + 1_000_000)
    [later] = PipelineList.model_validate_json(api.get("/api/v1/pipelines").text).items
    assert (later.observed - first.items[0].observed).total_seconds() == 1


def test_a_scraper_reads_every_figure() -> None:
    """By Prometheus' own parser: as many samples as there are pipelines and lanes, and their values."""
    application = with_a_look(make_app())
    text = Api(application).get("/metrics").text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    [lanes] = [families[name] for name in families if name.startswith("tidegate_admin_lane_events")]
    view = application.state.deps.watch.views["shop"]
    told = [(sample.labels, sample.value) for sample in lanes.samples]
    assert [({"pipeline": "shop", "sink": lane.sink}, lane.status.events) for lane in view.lanes] == told
    assert lanes.type == "counter"
    assert families["tidegate_admin_last_look_seconds"].samples[0].value == view.time / 1e6


def test_metrics_are_those_declared() -> None:
    """Of what is not known there is no sample."""
    application = with_a_look(make_app())
    text = Api(application).get("/metrics").text
    names = {line.split("{")[0] for line in text.splitlines() if line.startswith("tidegate_")}
    declared = {declaration.name for declaration in application.state.deps.metrics.declarations}
    assert names == declared - {"tidegate_admin_wal_safe_bytes", "tidegate_admin_raw_topic_wrong_settings"}
    assert 'tidegate_admin_lane_lag_seconds{pipeline="shop",sink="events"} 0.0' in text


def test_the_page_draws_the_gate_and_escapes_what_it_shows() -> None:
    page = Api(with_a_look(make_app())).get("/").text
    for word in ("Source", "Raw topic", "Lanes", "Gate", "Slot", "shop", "events"):
        assert word in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page


def test_every_answer_carries_the_safe_headers(api: Api) -> None:
    for path in ("/", "/nothing", "/healthz"):
        headers = api.get(path).headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_a_watch_without_servers_still_answers_within_its_deadlines() -> None:
    """Redis and PostgreSQL refuse: the picture says so, and nothing hangs."""
    watch = Watch([make_config()])

    async def look() -> None:
        async with asyncio.timeout(10), watch.running():
            await watch.looked.wait()

    asyncio.run(look())
    assert watch.health.components["shop/redis"].reason.startswith("Redis did not answer")
    assert watch.health.components["shop/slot"].reason.startswith("PostgreSQL did not answer")


def test_every_action_may_be_asked_for_under_a_key() -> None:
    """But the two that only judge, and the one that cannot be done twice."""
    without = {
        operation["operationId"]
        for methods in make_app().openapi()["paths"].values()
        for method, operation in methods.items()
        if method != "get" and "Idempotency-Key" not in {each["name"] for each in operation.get("parameters", [])}
    }
    assert without == {"validateConfiguration", "diffConfiguration", "cancelSearch"}
