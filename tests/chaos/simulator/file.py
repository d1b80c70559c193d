"""Which sinks the file names, who has taken it over, and the lanes whose sinks it does not name any more.

Each service takes it over at a moment of its own: the processor here, a reader in `ReaderProcess.take_file`, one that
starts as it starts. Who comes back has what it had: its sink's events, cursor and ack.
"""

import random
from typing import TYPE_CHECKING

from chaos.simulator.lane import Lane
from chaos.simulator.oracle import LaneLedger
from chaos.simulator.production import configuration

if TYPE_CHECKING:
    from chaos.simulator.world import World

_MOST_SINKS = 5


class File:
    def __init__(self, world: "World") -> None:
        self.left: dict[str, Lane] = {}
        self._world = world
        self._taken = world.config
        self._count = 0

    @property
    def is_taken(self) -> bool:
        """By the processor."""
        return self._taken is self._world.config

    def add(self, dice: random.Random) -> bool:
        named = self._named()
        gone = [(name, ledger.required) for name, ledger in self._world.oracle.lanes.items() if name not in named]
        if len(named) == _MOST_SINKS:
            return False
        if gone and dice.random() < 0.6:
            name, required = dice.choice(gone)
        else:
            self._count += 1
            name, required = f"late{self._count}", dice.random() < 0.8
            self._world.oracle.lanes[name] = LaneLedger(name, required, is_late=True)
        self._write(named | {name: required})
        return True

    def remove(self, dice: random.Random) -> bool:
        """Not the last required one: with none the gate waits for nobody, and little is left to be judged."""
        named = self._named()
        required = [name for name in named if named[name]]
        name = dice.choice(list(named))
        if required == [name]:
            return False
        del named[name]
        self._write(named)
        return True

    def take(self) -> None:
        """By the processor, as its `Lanes` do."""
        world, config = self._world, self._world.config
        named = {sink.name: sink for sink in config.sinks}
        for lane in [lane for lane in world.lanes if lane.name not in named]:
            _leave(lane)
            world.lanes.remove(lane)
            lane.ledger.has_left = True
            self.left[lane.name] = lane
        there = {lane.name for lane in world.lanes}
        for name in [name for name in named if name not in there]:
            world.lanes.append(self._made(name))
        self._taken = config
        world.note(f"the processor delivers into {list(named)}")

    def _made(self, name: str) -> Lane:
        world = self._world
        lane = self.left.pop(name, None)
        if lane is None:
            ledger = world.oracle.lanes[name]
            return Lane(world, ledger, world.config.sink(name), cursor_in_group=world.plan.cursors_in_group)
        lane.lost = lane.last_error = None
        lane.paused_until = 0.0
        return lane

    def _named(self) -> dict[str, bool]:
        return {sink.name: sink.required for sink in self._world.config.sinks}

    def _write(self, named: dict[str, bool]) -> None:
        world = self._world
        world.config = configuration(tuple(sorted(named.items())), resnapshots=world.plan.resnapshots)
        for name, ledger in world.oracle.lanes.items():
            ledger.is_in_file = name in named


def _leave(lane: Lane) -> None:
    """Drained, or too late for that: then it is killed, and what its sink holds may still become durable."""
    lane.post_stop()
    if lane.lost is None:
        lane.turn(5)
    lane.kill()
    lane.old_workers.clear()
