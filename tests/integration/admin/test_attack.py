"""Two hundred clients that never read and a flood without tokens: refused, bounded, and whoever may ask is answered."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import urlsplit

from chaos.attack import Target, Told, attack
from kit.admin_process import AdminPlace
from kit.wait import wait

from tidegate_admin.security.scopes import Scope

SECONDS = 5.0


@contextmanager
def attacked(place: AdminPlace) -> Iterator[Told]:
    url = urlsplit(place.url)
    known = place.client(Scope.DATA, Scope.READ).headers["Authorization"].removeprefix("Bearer ")
    target = Target(url.hostname or "", url.port or 0, place.config.pipeline, known)
    told = Told()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(asyncio.run, attack(target, SECONDS))
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
