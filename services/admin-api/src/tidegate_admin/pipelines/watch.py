"""Looks at every pipeline every second or third and keeps what it saw, so that an answer costs no question to anybody.

Invariant: the load on Redis and PostgreSQL is at most a look a second and pipeline, however many clients ask; a part
that does not answer delays its own pipeline only, and its absence is part of the picture.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from time import monotonic, time_ns

from tidegate.config.pipeline import PipelineConfig
from tidegate.errors import TransientError
from tidegate.observability import logs
from tidegate.observability.health import Component, Health
from tidegate_admin.health.service import component_names, tell
from tidegate_admin.pipelines.observation import Observation, Statuses, StatusReader, Unavailable
from tidegate_admin.pipelines.pictures import FOLLOWED_SECONDS, Pictures, Rendering
from tidegate_admin.pipelines.raw_topic import RawTopicWatch
from tidegate_admin.pipelines.schemas import PipelineModel
from tidegate_admin.pipelines.service import Levels, PipelineView, pipeline_view
from tidegate_admin.slots.service import SlotReader, SlotView

LOOK_SECONDS = 1.0
FIRST_LOOK_SECONDS = 3.0
UNASKED = 3
"""So many times slower is a pipeline looked at that nobody asks for: probes and dashboards do as well with that."""


class Observer:
    """One pipeline's two connections and the histories that its picture needs."""

    def __init__(self, config: PipelineConfig) -> None:
        self.config = config
        self.raw_topic = RawTopicWatch(config)
        self._statuses = StatusReader(config)
        self._slot = SlotReader(config.source)
        self._levels = Levels()

    def follow(self, config: PipelineConfig) -> None:
        """Sinks may have come or gone; its servers are the same."""
        self.config = config
        self._statuses.follow(config)

    async def look(self) -> PipelineView:
        statuses, slot = await asyncio.gather(self._read_statuses(), self._read_slot())
        seen = Observation(time_ns() // 1000, statuses, slot, self.raw_topic.wrong_settings)
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
        self._asked: dict[str, float] = {}
        self._parts = {name: _parts_of(observer.config) for name, observer in self._observers.items()}
        self._pictures = Pictures(lambda view: PipelineModel.of(view, self.components(view.name)))
        self.looked = asyncio.Event()
        """Set once every pipeline has been looked at."""
        self.health = Health(self._components())

    def follow(self, config: PipelineConfig) -> None:
        """By this one from now on. What is new is down until it has been looked at."""
        self._observers[config.pipeline].follow(config)
        self._parts[config.pipeline] = _parts_of(config)
        self.health.know(self._components())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._observers)

    @property
    def views(self) -> Mapping[str, PipelineView]:
        return self._views

    def components(self, name: str) -> dict[str, Component]:
        """Of one pipeline, without its name before them."""
        known = self.health.components
        return {part: known[full] for full, part in self._parts[name].items()}

    def asked(self, name: str) -> PipelineView | None:
        """The last look, if there was one, for somebody who wants to know."""
        self._asked[name] = monotonic()
        return self._views.get(name)

    def picture(self, name: str, rendering: Rendering) -> str | None:
        """Of the last look, if there was one."""
        view = self.asked(name)
        return None if view is None else self._pictures.text(view, rendering)

    def _components(self) -> Iterator[str]:
        for observer in self._observers.values():
            yield from component_names(observer.config)

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
                    tasks.create_task(observer.raw_topic.run(at / len(self._observers)), name=f"raw topic {name}")
                    for at, (name, observer) in enumerate(self._observers.items())
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
            begun = monotonic()
            view = await observer.look()
            for component, before, after in tell(self.health, view.name, view.conditions):
                log.info("component_changed", part=component, before=before, after=after)
            self._views[name] = view
            self._pictures.renew(view)
            if len(self._views) == len(self._observers):
                self.looked.set()
            await asyncio.sleep(max(0.0, self._pace(name) * (1 + phase) - (monotonic() - begun)))
            phase = 0.0

    def _pace(self, name: str) -> float:
        is_asked = monotonic() - self._asked.get(name, float("-inf")) < FOLLOWED_SECONDS
        return self._every_seconds * (1 if is_asked else UNASKED)


def _parts_of(config: PipelineConfig) -> dict[str, str]:
    """By the name that it has among all pipelines' parts."""
    return {full: full.removeprefix(f"{config.pipeline}/") for full in component_names(config)}
