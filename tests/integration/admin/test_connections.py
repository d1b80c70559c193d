"""Connections that are slow, endless or gone too soon: each costs the service little, and nobody else anything."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from urllib.parse import urlsplit

import httpx
import pytest
from kit.admin_process import AdminPlace
from kit.wait import wait

from tidegate_admin.security.scopes import Scope

ENDLESS_BYTES = 2**26
"""Far more than the kernel keeps between the two, ten megabytes: so much goes through only if the service takes it."""


@pytest.fixture(scope="module")
def client(place: AdminPlace) -> httpx.Client:
    return place.client()


@contextmanager
def connected(place: AdminPlace) -> Iterator[socket.socket]:
    url = urlsplit(place.url)
    with socket.create_connection((url.hostname, url.port), 15) as connection:
        yield connection


def head(place: AdminPlace, client: httpx.Client, line: str, *more: str) -> bytes:
    """Of a request that may be made."""
    token = client.headers["Authorization"]
    lines = [line, f"Host: {urlsplit(place.url).netloc}", f"Authorization: {token}", *more, "", ""]
    return "\r\n".join(lines).encode()


def test_those_who_never_finish_their_request_keep_nobody_out(place: AdminPlace) -> None:
    """More of them than the service takes connections: the next caller is answered, and they are ended in time."""
    client = place.client(Scope.READ)
    with ExitStack() as stack:
        slow = [stack.enter_context(connected(place)) for _ in range(1_100)]
        for each in slow:
            each.sendall(b"GET /api/v1/pipelines HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        wait(lambda: _is_answered(client), 5, "whoever may ask is answered")
        wait(lambda: sum(map(_is_ended, slow)) == len(slow), 30, "they are ended")
    assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    ("beginning", "piece"),
    [
        ("GET /api/v1/pipelines HTTP/1.1\r\nHost: 127.0.0.1\r\n", "X-More: " + "x" * 1000 + "\r\n"),
        (
            "GET /api/v1/pipelines HTTP/1.1\r\nHost: 127.0.0.1\r\n",
            "Range: bytes=" + ",".join(f"{n}-" for n in range(200)) + "\r\n",
        ),
        ("GET /api/v1/pipelines HTTP/1.1\r\nHost: 127.0.0.1\r\nX-More: ", "x" * 1000),
        ("GET /", "x" * 1000),
        (
            "POST /api/v1/pipelines HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
            "X-More: " + "x" * 1000 + "\r\n",
        ),
        (
            "POST /api/v1/pipelines HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n1;",
            "x" * 1000,
        ),
    ],
    ids=["headers", "ranges", "a value", "a path", "trailers", "a chunk's extension"],
)
def test_a_head_without_end_is_refused_while_it_comes(place: AdminPlace, client, beginning: str, piece: str) -> None:
    """Ten thousand parts of a Range, or headers for ever: it is not kept until it is whole."""
    pieces, sent = piece.encode() * 20, 0
    with connected(place) as connection:
        connection.sendall(beginning.encode())
        try:
            while sent < ENDLESS_BYTES and not _is_ended(connection):
                connection.setblocking(True)
                connection.sendall(pieces)
                sent += len(pieces)
        except OSError:
            pass
    assert sent < ENDLESS_BYTES, "nobody said to stop"
    assert client.get("/healthz").status_code == 200


def test_thousands_of_requests_at_once_are_not_kept(place: AdminPlace, client) -> None:
    """What one read brings would wait in memory for the answers before it, at a hundred times its size."""
    requests, answered = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 6_000, b""
    with connected(place) as connection:
        with suppress(OSError):
            connection.sendall(requests)
        with suppress(OSError):
            while piece := connection.recv(65536):
                answered += piece
    assert answered.count(b"HTTP/1.1 ") < 6_000
    assert client.get("/healthz").status_code == 200


def test_a_body_without_end_is_refused_while_it_comes(place: AdminPlace, client) -> None:
    kind = "Content-Type: application/json"
    line = f"POST {place.base}/configuration/validate HTTP/1.1"
    piece = b"10000\r\n" + bytes(0x10000) + b"\r\n"
    with connected(place) as connection:
        connection.sendall(head(place, client, line, kind, "Transfer-Encoding: chunked"))
        sent = 0
        try:
            while sent < ENDLESS_BYTES and not _is_ended(connection, is_answer_the_end=True):
                connection.setblocking(True)
                connection.sendall(piece)
                sent += len(piece)
        except OSError:
            pass
    assert sent < ENDLESS_BYTES, "nobody said to stop"
    assert client.get("/healthz").status_code == 200


def test_a_body_that_does_not_come_is_not_waited_for(place: AdminPlace, client) -> None:
    line = f"POST {place.base}/configuration/validate HTTP/1.1"
    with connected(place) as connection:
        connection.sendall(head(place, client, line, "Content-Type: application/json", "Content-Length: 100"))
        answer = b""
        while b"\r\n\r\n{" not in answer and (piece := connection.recv(65536)):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"BODY_TIMEOUT" in answer


def test_those_who_go_away_in_the_middle_leave_nothing_behind(place: AdminPlace, client) -> None:
    lines = [
        f"GET {place.base} HTTP/1.1", f"GET {place.base}/slots HTTP/1.1", f"GET {place.base}/frames HTTP/1.1",
        f"GET {place.base}/events HTTP/1.1", f"POST {place.base}/slots/tidegate_none/drop HTTP/1.1", "GET / HTTP/1.1",
    ]  # fmt: skip
    for line in lines * 5:
        with connected(place) as connection:
            connection.sendall(head(place, client, line, "Content-Length: 0"))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset, no goodbye
    assert client.get(place.base).status_code == 200
    assert "request_failed" not in place.process.log()


def test_an_upgrade_to_another_protocol_is_not_made(place: AdminPlace, client) -> None:
    more = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAA")
    with connected(place) as connection:
        connection.sendall(head(place, client, f"GET {place.base}/events HTTP/1.1", *more))
        answer = connection.recv(65536)
    assert not answer.startswith(b"HTTP/1.1 101")


def _is_answered(client: httpx.Client) -> bool:
    """A connection that idles may be ended to make room; the next request is then made on another."""
    try:
        return client.get("/api/v1/pipelines").status_code == 200
    except httpx.TransportError:
        return False


def _is_ended(connection: socket.socket, *, is_answer_the_end: bool = False) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b"" or is_answer_the_end
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
