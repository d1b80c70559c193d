"""The admin API under attack while a pipeline runs (M45): 200 clients that follow events and never read, and 2,000
requests a second without a token. What comes through the pipeline must not take twice as long.

    PYTHONPATH=tests python -m chaos.attack --url http://127.0.0.1:8080 --token tg_… --pipeline shop --seconds 30

Run apart, as attackers are: a process of its own, which counts what it was answered and prints that as JSON.
"""

import argparse
import asyncio
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

DEAF_CLIENTS = 200
REQUESTS_A_SECOND = 2_000
CONNECTIONS = 50
_BURST = 10
_STATUSES = re.compile(rb"HTTP/1\.1 (\d{3})")
_CONNECT_SECONDS = 5.0
_FOLLOW_SECONDS = 30.0
"""For the first word: a stream that has nothing to say yet is silent."""
_RECEIVE_BYTES = 4096
"""Small, so that a client that does not read is soon full."""


@dataclass(frozen=True, slots=True)
class Target:
    host: str
    port: int
    pipeline: str
    token: str


@dataclass
class Told:
    """What the attack has met with."""

    seconds: float = 0.0
    sent: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    """Of the flood, by status; `none`: the connection was ended."""
    deaf: Counter[str] = field(default_factory=Counter)
    """Of the clients that never read, by the first line they were sent."""


async def attack(target: Target, seconds: float, *, deaf: int = DEAF_CLIENTS, rate: int = REQUESTS_A_SECOND) -> Told:
    told, begun, ended = Told(), time.monotonic(), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(deaf):
            tasks.create_task(_follow_and_never_read(target, ended, told))
        for _ in range(CONNECTIONS if rate else 0):
            tasks.create_task(_flood(target, ended, rate / CONNECTIONS, told))
        await _wait(ended, seconds)
        ended.set()
    told.seconds = time.monotonic() - begun
    return told


async def _wait(ended: asyncio.Event, seconds: float) -> None:
    """Until the attack has ended, so long at most."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await ended.wait()


async def _follow_and_never_read(target: Target, ended: asyncio.Event, told: Told) -> None:
    path, host = f"/api/v1/pipelines/{target.pipeline}/events", f"{target.host}:{target.port}"
    request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {target.token}\r\n\r\n"
    writer = None
    try:
        async with asyncio.timeout(_FOLLOW_SECONDS):
            reader, writer = await asyncio.open_connection(target.host, target.port, limit=_RECEIVE_BYTES)
            writer.write(request.encode())
            told.deaf[_status(await reader.readline())] += 1
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # of a socket's transport
        await ended.wait()
    except (OSError, EOFError, TimeoutError) as error:
        told.deaf[type(error).__name__] += 1
    finally:
        if writer is not None:
            writer.transport.abort()


async def _flood(target: Target, ended: asyncio.Event, rate: float, told: Told) -> None:
    """One connection's share; a connection that is ended is made anew."""
    request = f"GET /api/v1/pipelines HTTP/1.1\r\nHost: {target.host}:{target.port}\r\n\r\n".encode()
    due = time.monotonic()
    while not ended.is_set():
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(target.host, target.port)
        except (OSError, TimeoutError):
            told.answers["none"] += 1
            await _wait(ended, 0.1)
            continue
        with suppress(OSError, EOFError, ValueError, TimeoutError):
            while not ended.is_set():
                due += _BURST / rate
                await _wait(ended, max(0.0, due - time.monotonic()))
                told.sent += _BURST
                told.answers.update(await _ask(reader, writer, request * _BURST))
        writer.transport.abort()


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, requests: bytes) -> list[str]:
    """Statuses of a burst. What is left of the last answer is met by the next look, which seeks statuses only: to read
    each answer properly would cost the attacker more than it costs the attacked."""
    async with asyncio.timeout(_CONNECT_SECONDS):
        writer.write(requests)
        told, statuses = b"", list[bytes]()
        while len(statuses) < _BURST:
            piece = await reader.read(2**16)
            if not piece:
                raise EOFError("no answer")
            told += piece
            statuses = _STATUSES.findall(told)
        return [status.decode() for status in statuses]


def _status(line: bytes) -> str:
    parts = line.split()
    if len(parts) < 2:
        raise EOFError("no answer")
    return parts[1].decode(errors="replace")


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def main() -> int:
    parser = argparse.ArgumentParser(description="Attack an admin service for a while.")
    parser.add_argument("--url", required=True)
    parser.add_argument("--token", required=True, help="with the scope data, of those who follow and never read")
    parser.add_argument("--pipeline", required=True)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    url = urlsplit(options.url)
    target = Target(url.hostname or "127.0.0.1", url.port or 80, options.pipeline, options.token)
    told = asyncio.run(attack(target, options.seconds))
    print(json.dumps(vars(told), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
