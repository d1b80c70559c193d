"""Every route with no token, a wrong one, a weaker one and the right one; and what else is refused before a route."""

import base64
import json
from pathlib import Path

import httpx
import pytest
from kit.admin import Api, make_app, with_a_look

from tidegate_admin.app import routes
from tidegate_admin.errors import MEDIA_TYPE
from tidegate_admin.security import tokens
from tidegate_admin.security.limits import MAX_BODY_BYTES, Limits, Rate
from tidegate_admin.security.scopes import Open, Scope, scope_of

OPEN = {"/healthz", "/readyz"}
# From the application itself, so that a new route cannot be forgotten.
EVERY = [(method, route.path) for route in routes() for method in sorted(route.methods or ())]
CLOSED = [(method, path) for method, path in EVERY if path not in OPEN]
RIGHT = {(method, route.path): scope_of(route.endpoint) for route in routes() for method in route.methods or ()}
WRONG = "tg_0123456789ab_" + "A" * 43


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tokens") / "tokens.json"


@pytest.fixture(scope="module")
def given(file: Path) -> dict[frozenset[Scope], str]:
    """A token for each scope alone, and for all but each."""
    sets = [frozenset({scope}) for scope in Scope] + [frozenset(Scope) - {scope} for scope in Scope]
    return {scopes: tokens.create(file, "test", scopes)[1] for scopes in sets}


@pytest.fixture(scope="module")
def api(file: Path, given: object) -> Api:
    generous = Rate(1e6, 10**6)
    return Api(with_a_look(make_app(file, limits=Limits(generous, generous, generous))))


def ask(api: Api, method: str, path: str, token: str | None) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    body = {"content": b"{}"} if method not in ("GET", "HEAD") else {}
    address = path.replace("{name}", "no-such-pipeline").replace("{", "").replace("}", "")
    return api.request(method, address, headers | ({"Content-Type": "application/json"} if body else {}), **body)


@pytest.mark.parametrize(("method", "path"), EVERY)
def test_every_route_says_who_may_call_it(method: str, path: str) -> None:
    """Only the two probes are open, and only what reads is a GET."""
    scope = RIGHT[method, path]
    assert isinstance(scope, Open) == (path in OPEN)
    assert scope in (*Scope, *Open)
    assert method == "GET" or scope is not Scope.READ or path.endswith(("/validate", "/diff"))


@pytest.mark.parametrize(("method", "path"), CLOSED)
def test_without_the_right_token_no_route_is_reached(api: Api, given, method: str, path: str) -> None:
    """None, a wrong one, one of every other scope: 401, 401, 403, and never a side effect. The right one is let in."""
    right = RIGHT[method, path]
    weaker = given[frozenset(Scope) - {right}]
    answers = [ask(api, method, path, token) for token in (None, WRONG, weaker, given[frozenset({right})])]
    assert [answer.status_code for answer in answers[:3]] == [401, 401, 403]
    assert [answer.json()["code"] for answer in answers[:3]] == ["UNAUTHORIZED", "UNAUTHORIZED", "SCOPE_MISSING"]
    assert all(answer.headers["content-type"] == MEDIA_TYPE for answer in answers[:3])
    assert answers[3].status_code not in (401, 403, 500)


@pytest.mark.parametrize("path", sorted(OPEN))
def test_probes_need_no_token(api: Api, path: str) -> None:
    assert api.get(path).status_code in (200, 503)


@pytest.mark.parametrize("path", ["/nothing", "/api/v1", "/api/v1/pipelines/shop/../../..", "//", "/%2e%2e/metrics"])
def test_what_does_not_exist_is_not_told_to_strangers(api: Api, path: str) -> None:
    assert api.get(path).status_code == 401


def test_a_right_token_in_another_place_is_no_token(api: Api, given) -> None:
    """In the query it would end up in logs; two headers may be read as either."""
    token = given[frozenset({Scope.READ})]
    twice = [("Authorization", f"Bearer {token}"), ("Authorization", f"Bearer {token}")]
    cookie = {"Cookie": f"token={token}"}
    answers = [
        api.get(f"/api/v1/pipelines?token={token}&access_token={token}"),
        api.request("GET", "/api/v1/pipelines", twice),
        api.request("GET", "/api/v1/pipelines", cookie),
        api.get("/api/v1/pipelines", authorization=f"Digest {token}"),
        api.get("/api/v1/pipelines", authorization="Basic !!"),
        api.get("/api/v1/pipelines", authorization=f"Bearer {token}x"),
    ]
    assert {answer.status_code for answer in answers} == {401}


def test_a_browser_gives_the_token_as_a_password(api: Api, given) -> None:
    password = base64.b64encode(f"me:{given[frozenset({Scope.READ})]}".encode()).decode()
    assert api.get("/api/v1/pipelines", authorization=f"Basic {password}").status_code == 200


def test_a_revoked_and_an_expired_token_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    kept, text = tokens.create(path, "a", frozenset({Scope.READ}))
    _, late = tokens.create(path, "b", frozenset({Scope.READ}), expires=1)
    file = tokens.TokenFile(path)
    assert file.caller(text) is not None
    assert file.caller(late) is None
    tokens.revoke(path, kept.id)
    assert tokens.TokenFile(path).caller(text) is None


def test_a_file_that_is_gone_or_broken_lets_nobody_in(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    _, text = tokens.create(path, "a", frozenset({Scope.READ}))
    file = tokens.TokenFile(path)
    assert file.caller(text) is not None
    path.write_text("{")
    file._next_look = 0
    assert file.caller(text) is None


def test_tokens_are_kept_as_digests_and_only_for_their_owner(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    token, text = tokens.create(path, "a", frozenset({Scope.READ}))
    kept = path.read_text()
    assert text not in kept
    assert text.split("_", 2)[2] not in kept
    assert json.loads(kept)["tokens"][0]["id"] == token.id
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "http://127.0.0.1"}, 200),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"X-Forwarded-Host": "evil.example", "X-Forwarded-For": "127.0.0.1"}, 200),
    ],
)
def test_a_page_of_another_origin_is_refused_whatever_it_brings(api: Api, given, headers, status: int) -> None:
    token = given[frozenset({Scope.READ})]
    answer = api.request("GET", "/api/v1/pipelines", headers | {"Authorization": f"Bearer {token}"})
    assert answer.status_code == status
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_no_browser_is_told_that_it_may_ask_across_origins(api: Api, origin: str, method: str) -> None:
    """The question before the request brings no token, and gets no permission."""
    headers = {"Origin": origin, "Access-Control-Request-Method": method, "Host": "127.0.0.1"}
    answer = api.request("OPTIONS", "/api/v1/pipelines/shop/slots", headers)
    assert answer.status_code in (401, 403, 405)
    assert not [name for name in answer.headers if name.startswith("access-control-")]


@pytest.mark.parametrize(
    ("host", "status"), [("evil.example", 421), ("127.0.0.1:8080", 200), ("localhost", 200), ("[::1]:8080", 200)]
)
def test_without_tokens_only_loopbacks_names_are_answered(host: str, status: int) -> None:
    """A web page elsewhere may let its name resolve to here."""
    assert Api(make_app()).get("/api/v1/pipelines", host=host).status_code == status


def test_without_tokens_nothing_can_be_destroyed() -> None:
    api = Api(make_app())
    destroying = [(method, path) for (method, path), scope in RIGHT.items() if scope is Scope.DESTROY]
    assert {ask(api, method, path, None).status_code for method, path in destroying} <= {403}


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"x" * (MAX_BODY_BYTES + 1), {}, 413),
        (b"{}", {"Content-Length": "9" * 30}, 413),
        (b"{}", {"Content-Length": "-1"}, 413),
        (b"{}", {"Content-Type": "text/plain"}, 415),
        (b"\x1f\x8b" + bytes(99), {"Content-Encoding": "gzip"}, 415),
    ],
)
def test_a_body_that_is_too_large_or_of_another_kind_is_refused(body: bytes, headers, status: int) -> None:
    json_kind = {"Content-Type": "application/json"}
    answer = Api(make_app()).request("POST", "/api/v1/nothing", json_kind | headers, content=body)
    assert (answer.status_code, answer.headers["content-type"]) == (status, MEDIA_TYPE)


def test_strangers_keep_no_probe_of_their_address_from_its_answer(file: Path, given: object) -> None:
    api = Api(make_app(file, limits=Limits(strangers=Rate(1, 2))))
    wrong = {"Authorization": f"Bearer {WRONG}"}
    assert [api.request("GET", "/api/v1/pipelines", wrong).status_code for _ in range(3)] == [401, 401, 429]
    assert [api.get("/healthz").status_code for _ in range(3)] == [200, 200, 200]


def test_a_caller_who_asks_too_often_is_told_how_long_to_wait() -> None:
    api = Api(make_app(limits=Limits(reads=Rate(1, 2))))
    answers = [api.get("/api/v1/pipelines") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert int(answers[2].headers["retry-after"]) >= 1
    assert answers[2].json()["code"] == "RATE_LIMITED"
