"""Two hundred clients that never read and a flood without tokens: refused, bounded, and whoever may ask is answered."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
import psutil
from chaos.attack import Target, Told, attack
from kit.admin_process import AdminPlace
from kit.wait import wait

from tidegate_admin.security.scopes import Scope

SECONDS = 5.0
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
    after = client.get("/api/v1/pipelines").status_code

    assert (statuses, after) == ({200}, 200), slowest
    assert set(told.answers) <= {"401", "429", "none"}, told.answers
    assert told.answers["401"] > 0
    assert set(told.deaf) <= {"200", "503", "TimeoutError"}, told.deaf


def test_a_thousand_streams_that_nobody_reads_are_bounded(place: AdminPlace) -> None:
    """Some are followed, others are told that there is no room or ended; who comes anew is answered, memory stays."""
    client = place.client(Scope.READ)
    wait(lambda: client.get(place.base).status_code == 200, 20, "it has looked")
    url, headers = f"{place.url}/api/v1/pipelines", {"Authorization": client.headers["Authorization"]}
    before, statuses = psutil.Process(place.process.pid).memory_info().rss, set()
    with attacked(place, deaf=1_000, rate=0) as told:
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            statuses.add(httpx.get(url, headers=headers, trust_env=False, timeout=15).status_code)
    grown = psutil.Process(place.process.pid).memory_info().rss - before

    assert statuses == {200}
    assert told.deaf["200"] > 0, told.deaf
    assert sum(told.deaf.values()) == 1_000
    assert set(told.deaf) <= {"200", "503", "TimeoutError", "EOFError", "ConnectionResetError"}, told.deaf
    assert grown < _MOST_GROWTH_BYTES
