"""Looks at every pipeline once a second and keeps the last picture, so that an answer costs no question to anybody.

Invariant: the load on Redis and PostgreSQL is one look a second and pipeline, however many clients ask; a part that
does not answer delays its own pipeline only, and its absence is part of the picture.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress

from tidegate.config.pipeline import PipelineConfig
from tidegate.errors import TransientError
from tidegate.observability import logs
from tidegate.observability.health import Component, Health
from tidegate_admin.health.service import component_names, tell
from tidegate_admin.pipelines.observation import Observation, Statuses, StatusReader, Unavailable
from tidegate_admin.pipelines.raw_topic import RawTopicWatch
from tidegate_admin.pipelines.service import Levels, PipelineView, pipeline_view
from tidegate_admin.slots.service import SlotReader, SlotView

LOOK_SECONDS = 1.0
FIRST_LOOK_SECONDS = 3.0


class Observer:
    """One pipeline's two connections and the histories that its picture needs."""

    def __init__(self, config: PipelineConfig) -> None:
        self.config = config
        self.raw_topic = RawTopicWatch(config)
        self._statuses = StatusReader(config)
        self._slot = SlotReader(config.source)
        self._levels = Levels()

    async def look(self) -> PipelineView:
        statuses, slot = await asyncio.gather(self._read_statuses(), self._read_slot())
        seen = Observation(time.time_ns() // 1000, statuses, slot, self.raw_topic.wrong_settings)
        return pipeline_view(self.config, seen, self._levels)

    async def close(self) -> None:
        await self._statuses.close()
        await self._slot.close()

    async def _read_statuses(self) -> Statuses | Unavailable:
        try:
            return await self._statuses.read()
        except TransientError as error:
            return Unavailable(error.code, error.message)

    async def _read_slot(self) -> SlotView | Unavailable:
        try:
            return await self._slot.read()
        except TransientError as error:
            return Unavailable(error.code, error.message)


class Watch:
    """`running` keeps looking; everybody else reads `views`."""

    def __init__(self, pipelines: Iterable[PipelineConfig], *, every_seconds: float = LOOK_SECONDS) -> None:
        self._observers = {config.pipeline: Observer(config) for config in pipelines}
        self._every_seconds = every_seconds
        self._views: dict[str, PipelineView] = {}
        self.looked = asyncio.Event()
        """Set once every pipeline has been looked at."""
        self.health = Health(name for observer in self._observers.values() for name in component_names(observer.config))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._observers)

    @property
    def views(self) -> Mapping[str, PipelineView]:
        return self._views

    def components(self, name: str) -> dict[str, Component]:
        """Of one pipeline, without its name before them."""
        prefix = f"{name}/"
        return {
            full.removeprefix(prefix): component
            for full, component in self.health.components.items()
            if full.startswith(prefix)
        }

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Looks until the body ends; a first look is waited for, but not for ever. A failure of ours ends the body."""
        try:
            async with asyncio.TaskGroup() as tasks:
                looking = [
                    tasks.create_task(
                        self._keep_looking(name, observer, phase=at / len(self._observers)), name=f"watch {name}"
                    )
                    for at, (name, observer) in enumerate(self._observers.items())
                ]
                looking += [
                    tasks.create_task(observer.raw_topic.run(), name=f"raw topic {name}")
                    for name, observer in self._observers.items()
                ]
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.looked.wait(), FIRST_LOOK_SECONDS)
                yield
                for task in looking:
                    task.cancel()
        finally:
            for observer in self._observers.values():
                await observer.close()

    async def _keep_looking(self, name: str, observer: Observer, phase: float) -> None:
        """After the first look each in its own part of the second: all at once would keep those waiting who ask."""
        log = logs.get(f"watch.{name}")
        while True:
            begun = time.monotonic()
            view = await observer.look()
            for component, before, after in tell(self.health, view.name, view.conditions):
                log.info("component_changed", part=component, before=before, after=after)
            self._views[name] = view
            if len(self._views) == len(self._observers):
                self.looked.set()
            await asyncio.sleep(max(0.0, self._every_seconds * (1 + phase) - (time.monotonic() - begun)))
            phase = 0.0
