"""A seed becomes a plan: what this run is like, which faults it has, and every step with a seed of its own.

Because each step draws only from its own seed, a step can be taken away without changing the others: that is what
makes a failing run shrink.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from chaos.simulator.dice import Dice
from chaos.simulator.faults import DRAWN_APART, OF_THE_FILE, RARE, Fault

FEWEST_STEPS, MOST_STEPS = 200, 500
_FAULT_ENABLED = 0.3
_OFTEN_ENABLED = 0.5
_OFTEN = frozenset({Fault.TWO_INCARNATIONS, Fault.SINK_HOLDS})
"""What shows a missing fence needs luck besides."""
_RARE_ENABLED = 0.7
_RARE_DRAWN = (*sorted(RARE - {Fault.STANDBY_PROMOTED}), *3 * (Fault.SERVER_SWAPPED,), Fault.STANDBY_PROMOTED)
"""Most other servers are told by their LSNs alone; it takes many to try what looks at the generation."""
_RESNAPSHOTS = 0.5
_FILE_CHANGES, _MOST_FILE_CHANGES = 0.7, 8
_STOPS_OF_LONG_AGO, _MOST_STOPS = 0.3, 3
_ACTIONS = {
    "load": 30,
    "send": 18,
    "read": 26,
    "broker": 14,
    "lane": 26,
    "acks": 8,
    "status": 8,
    "look": 1,
    "checkpoint": 2,
    "save": 2,
}
_NAMES, _UP_TO = tuple(_ACTIONS), tuple(accumulate(_ACTIONS.values()))


@dataclass(frozen=True, slots=True)
class Step:
    number: int
    action: str
    seed: int

    @property
    def fault(self) -> Fault | None:
        return Fault(self.action.removeprefix("fault ")) if self.action.startswith("fault ") else None


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    required: tuple[bool, ...]
    """One lane each."""
    cursors_in_group: bool
    frame_bytes: int
    faults: tuple[Fault, ...]
    steps: tuple[Step, ...]
    resnapshots: bool = False
    """What the policy says of a lost slot or gap."""

    def without(self, numbers: frozenset[int]) -> "Plan":
        return replace(self, steps=tuple(step for step in self.steps if step.number not in numbers))


def make_plan(seed: int, allowed: frozenset[Fault] = frozenset(Fault)) -> Plan:
    dice = Dice(seed)
    common = [fault for fault in Fault if fault not in RARE and fault not in DRAWN_APART]
    faults = [fault for fault in common if dice.random() < (_OFTEN_ENABLED if fault in _OFTEN else _FAULT_ENABLED)]
    if dice.random() < _RARE_ENABLED:
        faults.append(dice.choice(_RARE_DRAWN))
    rate = dice.choice((0.03, 0.06, 0.12))
    required = (True, *(dice.random() < 0.6 for _ in range(dice.choice((0, 1, 1, 2)))))
    cursors_in_group, frame_bytes = dice.random() < 0.5, dice.choice((600, 900, 2000, 6000, 20_000))
    count = dice.randint(FEWEST_STEPS, MOST_STEPS)
    steps = []
    rare_at = dice.randrange(count // 3, count)
    enabled = [fault for fault in faults if fault not in RARE]
    rare = next((fault for fault in faults if fault in RARE), None)
    for number in range(count):
        action, own = dice.choices(_NAMES, cum_weights=_UP_TO)[0], dice.getrandbits(48)
        if enabled and dice.random() < rate:
            action = f"fault {dice.choice(enabled)}"
        if rare is not None and number == rare_at:
            action = f"fault {rare}"
        steps.append(Step(number, action, own))
    steps = _with_faults(f"file {seed}", OF_THE_FILE, _FILE_CHANGES, _MOST_FILE_CHANGES, steps)
    steps = _with_faults(f"stops {seed}", (Fault.STOP_OF_LONG_AGO,), _STOPS_OF_LONG_AGO, _MOST_STOPS, steps)
    kept = tuple(step for step in steps if step.fault is None or step.fault in allowed)
    enabled = tuple(fault for fault in faults if fault in allowed)
    return Plan(seed, required, cursors_in_group, frame_bytes, enabled, kept, _resnapshots(seed))


def _with_faults(dice_of: str, faults: Sequence[Fault], chance: float, most: int, steps: list[Step]) -> list[Step]:
    """By dice of its own: the steps of before stay as they were."""
    dice = random.Random(dice_of)
    if dice.random() >= chance:
        return steps
    changed = list(steps)
    for number in range(dice.randint(1, most)):
        step = Step(len(steps) + number, f"fault {dice.choice(faults)}", dice.getrandbits(48))
        changed.insert(dice.randrange(len(steps) // 5, len(steps)), step)
    return changed


def _resnapshots(seed: int) -> bool:
    """By dice of its own: the runs of before stay as they were."""
    return random.Random(f"resnapshots {seed}").random() < _RESNAPSHOTS
