"""Limits hold for those who ask at once, and a failure gives back what it took."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from kit.admin import make_config
from kit.wait import wait_async

from tidegate.config.base import Address
from tidegate.errors import TransientError
from tidegate_admin.access import Access
from tidegate_admin.app import create_app
from tidegate_admin.config import AdminSettings
from tidegate_admin.events.endpoints import EventStream
from tidegate_admin.frames.raw import Bounds
from tidegate_admin.pipelines.watch import Watch
from tidegate_admin.room import Room
from tidegate_admin.searches.service import AT_ONCE

PIPELINES = ("shop", "store")
SEARCH = {"table": "public.orders", "key": {"id": "7"}}


class Topic:
    """Answers nobody until it is let go, and then that it cannot."""

    def __init__(self) -> None:
        self.asked = 0
        self.go = asyncio.Event()

    async def bounds(self) -> Bounds:
        self.asked += 1
        await self.go.wait()
        raise TransientError("Kafka did not answer", code="LOG_UNAVAILABLE", remedy="Check the brokers.")


def make(topic: Topic) -> FastAPI:
    told = AdminSettings(tuple(map(make_config, PIPELINES)), Address("127.0.0.1", 0), None)
    access = Access(told)
    for name in PIPELINES:
        access.of(name).raw = topic  # type: ignore[assignment]
    return create_app(told, Watch(told.pipelines), access)


async def at_once(app: FastAPI, topic: Topic, requests: list[tuple[str, str, Any]], held: int) -> list[str]:
    """The codes of the answers; the topic is let go once `held` wait for it and all others have their answer."""
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        asked = [asyncio.create_task(client.request(method, url, json=body)) for method, url, body in requests]
        settled = len(requests) - held
        await wait_async(
            lambda: topic.asked + sum(task.done() for task in asked) >= len(requests), 5, "all have come so far"
        )
        early = sum(task.done() for task in asked)
        topic.go.set()
        answers = await asyncio.gather(*asked)
    assert early == settled
    return sorted(answer.json()["code"] for answer in answers)


def test_streams_of_all_pipelines_have_one_limit() -> None:
    async def asking() -> list[str]:
        topic = Topic()
        app = make(topic)
        app.state.deps.streams.most = 2
        requests = [("GET", f"/api/v1/pipelines/{name}/events", None) for name in PIPELINES * 2]
        codes = await at_once(app, topic, requests, held=2)
        assert app.state.deps.streams.taken == 0
        return codes

    assert asyncio.run(asking()) == ["LOG_UNAVAILABLE"] * 2 + ["STREAMS_FULL"] * 2


def test_searches_that_begin_at_once_are_no_more_than_may_run() -> None:
    async def asking() -> list[str]:
        topic = Topic()
        app = make(topic)
        requests = [("POST", "/api/v1/pipelines/shop/searches", SEARCH)] * (AT_ONCE + 3)
        codes = await at_once(app, topic, requests, held=AT_ONCE)
        assert app.state.deps.access.of("shop").searches.room.taken == 0
        return codes

    assert asyncio.run(asking()) == ["LOG_UNAVAILABLE"] * AT_ONCE + ["SEARCHES_FULL"] * 3


@pytest.mark.parametrize("fails", [False, True])
def test_a_stream_gives_its_room_back_however_it_ends(fails: bool) -> None:
    room = Room(1)

    async def messages() -> AsyncIterator[str]:
        yield ": one\n\n"

    async def send(_message: Any) -> None:
        if fails:
            raise OSError("gone")

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def serve() -> None:
        release = room.take()
        assert release is not None
        assert room.take() is None
        await EventStream(messages(), release)({"type": "http"}, receive, send)

    if fails:
        with pytest.raises(OSError, match="gone"):
            asyncio.run(serve())
    else:
        asyncio.run(serve())
    assert room.taken == 0


def test_what_is_given_back_twice_makes_no_more_room() -> None:
    room = Room(2)
    first, _ = room.take(), room.take()
    assert first is not None
    first()
    first()
    assert room.taken == 1
