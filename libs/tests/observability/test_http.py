"""The probe's server: three paths, bounded."""

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tidegate.errors import ConfigError
from tidegate.observability import http
from tidegate.observability.health import Health
from tidegate.observability.http import MAX_CONNECTIONS, MAX_REQUEST_BYTES, serving, serving_in_thread


@asynccontextmanager
async def served(health: Health) -> AsyncIterator[tuple[str, int]]:
    async with serving("127.0.0.1", 0, health, lambda: "tidegate_reader_lag_seconds 1\n") as address:
        yield address


async def ask(address: tuple[str, int], request: bytes) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(request)
    async with asyncio.timeout(10):
        answer = (await reader.read()).decode()
    writer.close()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split(" ")[1]) if head else 0, body


def conversation(request: bytes, health: Health | None = None) -> tuple[int, str]:
    async def run() -> tuple[int, str]:
        async with served(health or Health(["kafka"])) as address:
            return await ask(address, request)

    return asyncio.run(run())


def test_alive_is_not_ready() -> None:
    assert conversation(b"GET /healthz HTTP/1.1\r\n\r\n") == (200, '{"state": "up"}')


def test_not_ready_says_which_part_and_why() -> None:
    status, body = conversation(b"GET /readyz HTTP/1.1\r\n\r\n")

    assert status == 503
    assert json.loads(body)["components"]["kafka"]["reason"] == "starting"


def test_ready_when_all_parts_are_up() -> None:
    health = Health(["kafka"])
    health.up("kafka")

    assert conversation(b"GET /readyz?x=1 HTTP/1.1\r\n\r\n", health)[0] == 200


def test_metrics_are_text() -> None:
    assert conversation(b"GET /metrics HTTP/1.1\r\n\r\n") == (200, "tidegate_reader_lag_seconds 1\n")


def test_a_head_request_has_no_body() -> None:
    assert conversation(b"HEAD /healthz HTTP/1.1\r\n\r\n") == (200, "")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"GET /healthz/ HTTP/1.1\r\n\r\n", 404),
        (b"GET /%2e%2e/etc/passwd HTTP/1.1\r\n\r\n", 404),
        (b"POST /healthz HTTP/1.1\r\nContent-Length: 5\r\n\r\n", 405),
        (b"TRACE /healthz HTTP/1.1\r\n\r\n", 405),
        (b"\x16\x03\x01\r\n\r\n", 405),
        (b"\r\n\r\n", 405),
        (b"GET /healthz HTTP/1.1\r\nX: " + b"x" * MAX_REQUEST_BYTES * 2 + b"\r\n\r\n", 431),
    ],
)
def test_anything_else_is_refused(request_bytes: bytes, status: int) -> None:
    assert conversation(request_bytes)[0] == status


def test_a_silent_client_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "TIMEOUT_SECONDS", 0.05)

    assert conversation(b"GET /hea") == (0, "")


def test_connections_are_bounded_and_freed_and_keep_nobody_from_seeing_that_it_lives() -> None:
    async def run() -> list[int]:
        async with served(Health([])) as address:
            held = [await asyncio.open_connection(*address) for _ in range(MAX_CONNECTIONS)]
            refused, _ = await ask(address, b"GET /readyz HTTP/1.1\r\n\r\n")
            lives, _ = await ask(address, b"GET /healthz HTTP/1.1\r\n\r\n")
            for reader, writer in held:
                writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
                await reader.read()
                writer.close()
            served_again, _ = await ask(address, b"GET /readyz HTTP/1.1\r\n\r\n")
            return [refused, lives, served_again]

    assert asyncio.run(run()) == [503, 200, 200]


def test_a_taken_port_is_a_configuration_error() -> None:
    async def run() -> None:
        async with served(Health([])) as (host, port), serving(host, port, Health([]), str):
            pass

    with pytest.raises(ConfigError) as caught:
        asyncio.run(run())

    assert caught.value.code == "HTTP_ADDRESS"


def test_a_thread_serves_while_the_main_one_works_and_ends_with_it() -> None:
    with (
        serving_in_thread("127.0.0.1", 0, Health([]), str) as (host, port),
        urllib.request.urlopen(f"http://{host}:{port}/healthz", timeout=10) as answer,
    ):
        assert answer.status == 200

    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://{host}:{port}/healthz", timeout=10)
