"""Two hundred clients that never read and a flood without tokens: refused, bounded, and whoever may ask is answered."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from urllib.parse import urlsplit

import httpx
import psutil
from chaos.attack import Target, Told, attack
from kit.admin_process import AdminPlace
from kit.wait import wait

from tidegate_admin.security.scopes import Scope

SECONDS = 5.0
TO_THE_DEAF = {"200", "429", "503", "TimeoutError", "EOFError", "ConnectionResetError"}
"""What they are told, or that they are ended: by the service where too many wait for their requests to be read."""
_READ_EVERY_SECONDS = 0.01
"""Half as often as one caller may."""
_MOST_GROWTH_BYTES = 64 * 2**20


@contextmanager
def attacked(place: AdminPlace, **how: int) -> Iterator[Told]:
    url = urlsplit(place.url)
    known = place.client(Scope.DATA, Scope.READ).headers["Authorization"].removeprefix("Bearer ")
    target = Target(url.hostname or "", url.port or 0, place.config.pipeline, known)
    told = Told()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(asyncio.run, attack(target, SECONDS, **how))
        yield told
        vars(told).update(vars(future.result()))


def test_under_attack_whoever_may_ask_is_answered(place: AdminPlace) -> None:
    client = place.client(Scope.READ)
    wait(lambda: client.get(place.base).status_code == 200, 20, "it has looked")
    statuses, slowest = set(), 0.0
    with attacked(place) as told:
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            begun = time.monotonic()
            statuses.add(client.get("/api/v1/pipelines").status_code)
            slowest = max(slowest, time.monotonic() - begun)
            Event().wait(_READ_EVERY_SECONDS)
    after = client.get("/api/v1/pipelines").status_code

    assert (statuses, after) == ({200}, 200), slowest
    assert set(told.answers) <= {"401", "429", "none"}, told.answers
    assert told.answers["401"] > 0
    assert set(told.deaf) <= TO_THE_DEAF, told.deaf


def test_a_thousand_streams_that_nobody_reads_are_bounded(place: AdminPlace) -> None:
    """Some are followed; others, more than one caller may ask for, are told to come later or that there is no room, or
    are ended. Who comes anew is answered, in the very rush after another try; memory stays."""
    client = place.client(Scope.READ)
    wait(lambda: client.get(place.base).status_code == 200, 20, "it has looked")
    before = psutil.Process(place.process.pid).memory_info().rss
    with attacked(place, deaf=1_000, rate=0) as told:
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            wait(lambda: _is_newcomer_answered(client), 2, "who comes anew is answered")
    grown = psutil.Process(place.process.pid).memory_info().rss - before

    assert told.deaf["200"] > 0, told.deaf
    assert sum(told.deaf.values()) == 1_000
    assert set(told.deaf) <= TO_THE_DEAF, told.deaf
    assert grown < _MOST_GROWTH_BYTES


def _is_newcomer_answered(client: httpx.Client) -> bool:
    headers = {"Authorization": client.headers["Authorization"]}
    try:
        return httpx.get(f"{client.base_url}/api/v1/pipelines", headers=headers, trust_env=False, timeout=15).is_success
    except httpx.TransportError:
        return False
