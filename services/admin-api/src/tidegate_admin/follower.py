"""Reads configurations again as the other services do, so that lanes which come or go are shown as they are.

A file of megabytes takes long to read, so that is done in a thread. Invariant: what the reader and the processor would
refuse is refused here by the same rule; then the pipeline is shown as it is configured in them, not in the file.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

from tidegate.config.pipeline import PipelineConfig
from tidegate.config.reloads import Reloads

LOOK_SECONDS = 1.0

Follow = Callable[[PipelineConfig], None]


class Follower:
    def __init__(self, reloads: Iterable[Reloads], follow: Sequence[Follow]) -> None:
        self._reloads, self._follow = tuple(reloads), follow

    def ask(self) -> None:
        for each in self._reloads:
            each.ask()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Looks until the body ends. A failure of ours ends the body."""
        async with asyncio.TaskGroup() as tasks:
            looking = tasks.create_task(self._keep_looking(), name="configurations")
            yield
            looking.cancel()

    async def _keep_looking(self) -> None:
        while True:
            for each in self._reloads:
                await self.look(each)
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self, reloads: Reloads) -> None:
        new = await asyncio.to_thread(reloads.read) if reloads.is_due() else None
        if new is not None:
            reloads.take(new)
            for follow in self._follow:
                follow(new)
