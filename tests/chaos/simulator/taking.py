"""How a running reader takes the file over: `ConfigurationWatch`, one step at a time, so that it can die within."""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from chaos.simulator.clock import Pause

from tidegate.config.pipeline import PipelineConfig
from tidegate.config.reloads import names
from tidegate.contracts.lineage import Lineage
from tidegate.contracts.names import lineage_key
from tidegate.errors import ConfigError, TransientError
from tidegate_reader.keeper import Keeper
from tidegate_reader.required_sinks import RequiredSinks

if TYPE_CHECKING:
    from chaos.simulator.world import World


class Taking:
    def __init__(self, world: "World", config: PipelineConfig, keeper: Keeper, lineage: Lineage) -> None:
        self.config = config
        """As it has been taken over."""
        self.refused: tuple[str, ...] = ()
        """Sinks that came, and that it does not take."""
        self._world = world
        self._required = RequiredSinks(keeper, lineage, self._say)
        self._refusal: PipelineConfig | None = None
        self._is_made_good = True
        self._steps: Coroutine[Any, Any, None] | None = None

    @property
    def lineage(self) -> Lineage:
        return self._required.lineage

    @property
    def is_done(self) -> bool:
        return self._world.config in (self.config, self._refusal) and self._is_made_good

    def step(self) -> None:
        """Redis or Kafka away means that it is done later."""
        if self._steps is None and self.is_done:
            return
        self._steps = self._steps or self._take(self._world.config)
        try:
            self._steps.send(None)
        except (StopIteration, TransientError):
            self._steps = None

    def close(self) -> None:
        if self._steps is not None:
            self._steps.close()

    async def _take(self, new: PipelineConfig) -> None:
        await Pause()
        if new not in (self.config, self._refusal):
            come = names(new) - names(self.config)
            try:
                await self._required.check(new, come)
            except ConfigError:
                self._refusal, self.refused = new, tuple(come)
                self._world.counts["sinks left behind"] += 1
            else:
                self.config, self.refused, self._refusal, self._is_made_good = new, (), None, False
        elif new is self.config:
            self.refused, self._refusal = (), None
        if not self._is_made_good:
            self._is_made_good = await self._required.change(self.config)

    async def _say(self, lineage: Lineage) -> bool:
        """Redis may have taken what it does not say that it has."""
        await Pause()
        if not self._world.redis.is_up:
            return False
        self._world.redis.set(lineage_key(self._world.config.pipeline), lineage.encode())
        await Pause()
        return self._world.redis.is_up
