"""Builds what the admin service sees, in order but for what a test says, and asks its API without a socket."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from tidegate.config.base import Address
from tidegate.config.load import pipeline_from
from tidegate.config.pipeline import PipelineConfig
from tidegate.contracts.ack import Ack
from tidegate.contracts.status import LaneStatus, ReaderStatus, State
from tidegate.lsn import Lsn
from tidegate.position import Position
from tidegate_admin.access import Access
from tidegate_admin.app import create_app
from tidegate_admin.config import AdminSettings
from tidegate_admin.pipelines.observation import Observation, Statuses
from tidegate_admin.pipelines.service import Levels, pipeline_view
from tidegate_admin.pipelines.watch import Watch
from tidegate_admin.slots.service import SlotView

NOW = 1_800_000_000_000_000
GENERATION = "5f198871ce82e8e1eff5e930a3318a30"


def make_config(name: str = "shop", **more: Any) -> PipelineConfig:
    document = {
        "pipeline": name,
        "source": {"dsn": "postgresql://tidegate@127.0.0.1:1/shop", "publication": {"tables": ["public.orders"]}},
        "kafka": {"bootstrap": "127.0.0.1:1"},
        "redis": {"url": "redis://127.0.0.1:1/0"},
        "sinks": [
            {"name": "events", "type": "kafka_topics"},
            {"name": "extra", "type": "kafka_topics", "required": False},
        ],
    }
    return pipeline_from(document | more, environ={})


def make_reader(**fields: Any) -> ReaderStatus:
    told = {
        "pipeline": "shop",
        "state": State.RUNNING,
        "pid": 1,
        "time": NOW,
        "started": NOW - 60_000_000,
        "generation": GENERATION,
        "epoch": 1,
        "server_lsn": 1000,
        "produced_lsn": 1000,
        "confirmed_lsn": 1000,
        "raw_offset": 10,
    }
    return ReaderStatus(**{**told, **fields})


def make_lane(sink: str = "events", **fields: Any) -> LaneStatus:
    told = {
        "pipeline": "shop",
        "sink": sink,
        "incarnation": 1,
        "state": State.RUNNING,
        "pid": 2,
        "time": NOW,
        "started": NOW - 60_000_000,
        "latency_time": NOW,
    }
    return LaneStatus(**{**told, **fields})


def make_ack(sink: str = "events", safe_lsn: int = 1000, offset: int = 10) -> Ack:
    return Ack(sink, GENERATION, 1, "topic", offset, Position(Lsn(safe_lsn - 16), 1), Lsn(safe_lsn), NOW)


def make_slot(**fields: Any) -> SlotView:
    told = {
        "name": "tidegate_shop",
        "exists": True,
        "current_lsn": Lsn(1000),
        "active": True,
        "confirmed_flush_lsn": Lsn(1000),
        "restart_lsn": Lsn(900),
        "wal_status": "reserved",
    }
    return SlotView(**{**told, **fields})


def make_observation(
    reader: ReaderStatus | None = None, *, safe_lsn: int = 1000, time: int = NOW, slot: Any = None, **lanes: LaneStatus
) -> Observation:
    """In order and caught up, but for what is given."""
    statuses = Statuses(
        reader or make_reader(),
        lanes or {"events": make_lane(), "extra": make_lane("extra")},
        {"events": make_ack(safe_lsn=safe_lsn), "extra": make_ack("extra")},
    )
    return Observation(time, statuses, slot or make_slot())


class Api:
    """Each request in a loop of its own: the application keeps nothing between them but the watch's pictures."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.request("GET", path, headers)

    def request(self, method: str, path: str, headers: Any = None, **more: Any) -> httpx.Response:
        return asyncio.run(self._request(method, path, headers or {}, more))

    async def _request(self, method: str, path: str, headers: Any, more: dict[str, Any]) -> httpx.Response:
        transport = httpx.ASGITransport(self._app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.request(method, path, headers=headers, **more)


def make_app(tokens: Path | None = None, **settings: Any) -> FastAPI:
    """No server answers behind its one pipeline."""
    told = AdminSettings((make_config(),), Address("127.0.0.1", 0), tokens, **settings)
    return create_app(told, Watch(told.pipelines), Access(told))


def with_a_look(app: FastAPI, time: int = NOW) -> FastAPI:
    """As after a first look at a pipeline in order."""
    app.state.deps.watch._views["shop"] = pipeline_view(make_config(), make_observation(time=time), Levels())
    return app
