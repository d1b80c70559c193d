"""Refusals, headers, what is shown. No server answers behind these pipelines, and the service says so."""

import asyncio

import pytest
from kit.admin import Api, make_app, make_config, with_a_look

from tidegate_admin.errors import MEDIA_TYPE
from tidegate_admin.health.endpoints import router
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
