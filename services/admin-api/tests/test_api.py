"""Routes, refusals and who may ask. No server answers behind these pipelines, and the service says so."""

import asyncio
import base64

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from kit.admin import Api, make_config, make_observation

from tidegate.config.base import Address
from tidegate_admin.app import ROUTERS, create_app
from tidegate_admin.config import AdminSettings
from tidegate_admin.errors import MEDIA_TYPE
from tidegate_admin.pipelines.service import Levels, pipeline_view
from tidegate_admin.pipelines.watch import Watch

TOKEN = "a-token-of-more-than-sixteen"
OPEN = {"/healthz", "/readyz"}
ROUTES = {
    "/",
    "/api/v1/pipelines",
    "/api/v1/pipelines/{name}",
    "/docs",
    "/healthz",
    "/metrics",
    "/openapi.json",
    "/readyz",
    "/ui/icon.svg",
    "/ui/live",
    "/ui/page.css",
    "/ui/page.js",
}


def app(token: str | None = None) -> FastAPI:
    settings = AdminSettings((make_config(),), Address("127.0.0.1", 0), token)
    return create_app(settings, Watch(settings.pipelines))


@pytest.fixture
def api() -> Api:
    return Api(app())


def seen(application: FastAPI) -> FastAPI:
    """As after a first look at a pipeline in order."""
    watch = application.state.deps.watch
    watch._views["shop"] = pipeline_view(make_config(), make_observation(), Levels())
    return application


def test_the_routes_are_these_and_read_only() -> None:
    """A new route is a decision: who may call it, and what it may change."""
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    assert {route.path for route in routes} == ROUTES
    assert {method for route in routes for method in route.methods or ()} == {"GET"}


def test_operation_ids_are_stable() -> None:
    """Clients are generated from them."""
    paths = app().openapi()["paths"]
    assert {path: methods["get"]["operationId"] for path, methods in paths.items()} == {
        "/healthz": "healthz",
        "/readyz": "readyz",
        "/metrics": "metrics",
        "/api/v1/pipelines": "listPipelines",
        "/api/v1/pipelines/{name}": "getPipeline",
    }


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


def test_a_failure_of_ours_shows_nothing_of_it() -> None:
    """Only a number, under which the log tells more."""
    application = app()

    @application.get("/broken")
    def broken() -> None:
        raise RuntimeError("row value 4711")

    answer = Api(application).get("/broken")
    assert (answer.status_code, answer.json()["code"]) == (500, "INTERNAL")
    assert answer.json()["instance"].startswith("urn:uuid:")
    assert "4711" not in answer.text


def test_a_refused_field_is_named_and_its_value_is_not_repeated(api: Api) -> None:
    answer = api.get(f"/api/v1/pipelines/{'hunter2' * 12}")
    assert [field["pointer"] for field in answer.json()["errors"]] == ["/path/name"]
    assert "hunter2" not in str(answer.json()["errors"])


@pytest.mark.parametrize("path", sorted(ROUTES - OPEN))
def test_with_a_token_everything_but_the_probes_asks_for_it(path: str) -> None:
    """No token, a wrong one, the right one."""
    api, address = Api(seen(app(TOKEN))), path.replace("{name}", "shop")
    basic = base64.b64encode(f"me:{TOKEN}".encode()).decode()
    given = ("", "Bearer wrong", "Basic !!", f"Bearer {TOKEN}", f"Basic {basic}")
    answers = [api.get(address, authorization=header) for header in given]
    assert [answer.status_code for answer in answers] == [401, 401, 401, 200, 200]
    assert "Bearer" in answers[0].headers["www-authenticate"]


@pytest.mark.parametrize("path", sorted(OPEN))
def test_probes_need_no_token(path: str) -> None:
    assert Api(app(TOKEN)).get(path).status_code in (200, 503)


@pytest.mark.parametrize(
    ("host", "status"), [("evil.example", 421), ("127.0.0.1:8080", 200), ("localhost", 200), ("[::1]:8080", 200)]
)
def test_without_a_token_only_loopbacks_names_are_answered(api: Api, host: str, status: int) -> None:
    """A web page elsewhere may let its name resolve to here."""
    assert api.get("/api/v1/pipelines", host=host).status_code == status


def test_readiness_names_every_part(api: Api) -> None:
    answer = api.get("/readyz")
    assert answer.status_code == 503
    assert set(answer.json()["components"]) == {
        f"shop/{part}" for part in ("redis", "reader", "slot", "lane/events", "lane/extra")
    }
    assert all(set(part) == {"state", "reason", "since"} for part in answer.json()["components"].values())


def test_metrics_are_those_declared() -> None:
    """Of what is not known there is no sample."""
    application = seen(app())
    text = Api(application).get("/metrics").text
    names = {line.split("{")[0] for line in text.splitlines() if line.startswith("tidegate_")}
    declared = {declaration.name for declaration in application.state.deps.metrics.declarations}
    assert names == declared - {"tidegate_admin_wal_safe_bytes"}
    assert 'tidegate_admin_lane_lag_seconds{pipeline="shop",sink="events"} 0.0' in text


def test_the_page_draws_the_gate_and_escapes_what_it_shows() -> None:
    page = Api(seen(app())).get("/").text
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
