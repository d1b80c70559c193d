"""A watch over acks ends when it is told to, wherever the cancellation finds it, and believes no other value."""

import asyncio
from typing import Any
from urllib.parse import urlsplit

from tidegate.checkpoint.connect import connect_async
from tidegate.config.redis import RedisConfig
from tidegate.config.secret import Secret
from tidegate_reader.acks import read_now

CANCELLATIONS = 300


def test_a_cancellation_is_never_lost(redis: Any, prefix: str, monkeypatch: Any) -> None:
    parts = urlsplit(redis.url)
    monkeypatch.setenv("REDIS_PASSWORD", parts.password or "")
    password = Secret("env", "REDIS_PASSWORD") if parts.password else None
    config = RedisConfig(url=f"redis://{parts.hostname}:{parts.port}/0", password=password)

    async def read_for_ever() -> None:
        async with connect_async(config) as client:
            while True:
                await read_now(client, prefix, "g")

    async def cancel_after(turns: int) -> bool:
        task = asyncio.create_task(read_for_ever())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task], timeout=2)
        return task.cancelled()

    async def all_of_them() -> list[bool]:
        return [await cancel_after(turns) for turns in range(CANCELLATIONS)]

    ended = asyncio.run(all_of_them())
    assert ended == [True] * CANCELLATIONS
