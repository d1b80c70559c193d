"""What nobody means well with: each is refused with a problem document, and none makes the service fail."""

import json

import pytest
from kit.admin import Api, make_app, with_a_look

from tidegate_admin.errors import MEDIA_TYPE
from tidegate_admin.security.limits import Limits, Rate

VALIDATE = "/api/v1/pipelines/shop/configuration/validate"
DIFF = "/api/v1/pipelines/shop/configuration/diff"


def deep(depth: int, opening: str = '{"a":', closing: str = "}") -> bytes:
    return (opening * depth + "1" + closing * depth).encode()


BODIES = [
    b"", b"null", b"[]", b'"x"', b"{", b"\xff\xfe", b"\xef\xbb\xbf{}", b"NaN", b'{"text": NaN}', b'{"text": 1e400}',
    b'{"text": "\\ud800"}', b'{"text": "\\u0000"}', b'{"text": 1}', b'{"text": "a", "text": "b"}', b'{"document": []}',
    b'{"document": {"\\ud800": 1}}', b'{"document": {"pipeline": "\\ud800"}}', b'{"document": {"sinks": [1e999]}}',
    deep(100_000), deep(50_000, "[", "]"), *(b'{"document": ' + deep(depth) + b"}" for depth in (100, 300, 900, 990)),
    *(json.dumps({"text": "a: " + "[" * depth + "]" * depth}).encode() for depth in (100, 500, 5000)),
    json.dumps({"text": "a: &a [x]\n" + "\n".join(f"b{n}: &b{n} [*a, *a]" for n in range(50))}).encode(),
    b'{"document": {"sinks": [{"options": ' + deep(900) + b"}]}}", b'{"text": "x", "more": 1}', b"1" * 5000,
]  # fmt: skip

PATHS = [
    "/api/v1/pipelines/%00", "/api/v1/pipelines/%2e%2e/%2e%2e", "/api/v1/pipelines//", "/api/v1/pipelines/shop;x=1",
    "/api/v1/pipelines/%ff", "/api/v1/pipelines/％2e", "/api/v1/pipelines/shop/slots/a%00b", "/%c0%ae%c0%ae/",
    "/api/v1/pipelines?cursor=" + "A" * 2000, "/api/v1/pipelines?limit=1_0", "/api/v1/pipelines?limit=１",
    "/api/v1/pipelines?cursor=WyJcdWQ4MDAiXQ", "/api/v1/pipelines?limit=1&limit=9999999999999999999999",
]  # fmt: skip


@pytest.fixture(scope="module")
def api() -> Api:
    generous = Rate(1e6, 10**6)
    return Api(with_a_look(make_app(limits=Limits(generous, generous, generous))))


@pytest.mark.parametrize("path", [VALIDATE, DIFF])
@pytest.mark.parametrize("body", BODIES, ids=lambda body: repr(body[:24]) + str(len(body)))
def test_a_body_that_bites(api: Api, path: str, body: bytes) -> None:
    answer = api.request("POST", path, {"Content-Type": "application/json"}, content=body)
    if answer.status_code == 200:
        assert answer.json()["valid"] is False
    else:
        assert answer.status_code in (400, 422)
        assert answer.headers["content-type"] == MEDIA_TYPE


@pytest.mark.parametrize("path", PATHS)
def test_an_address_that_bites(api: Api, path: str) -> None:
    answer = api.get(path)
    assert answer.status_code in (200, 400, 404, 422, 307)


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE", "PUT", "PATCH", "DELETE", "CONNECT", "x" * 200])
def test_a_method_that_is_not_served(api: Api, method: str) -> None:
    answer = api.request(method, "/api/v1/pipelines")
    assert answer.status_code == 405
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    "headers",
    [
        {"Range": "bytes=" + ",".join(f"{n}-" for n in range(1000))},
        {"If-None-Match": '"x",' * 200},
        {"Accept-Encoding": "gzip;q=1e999"},
        {"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "https", "Forwarded": "for=127.0.0.1"},
        {"Idempotency-Key": "x" * 10_000},
        {"Last-Event-ID": "\x7f" * 60},
    ],
)
def test_a_header_that_bites(api: Api, headers: dict[str, str]) -> None:
    for path in ("/api/v1/pipelines", "/api/v1/pipelines/shop/configuration", "/ui/page.css"):
        assert api.request("GET", path, headers).status_code in (200, 304, 422)
