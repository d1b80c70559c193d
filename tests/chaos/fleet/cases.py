"""What a case of the matrix is: variants of one fault, each with its number of trials a tier.

Invariant: data only; the faults themselves are elsewhere.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from chaos.fleet.field import Fault, Outcome
from chaos.fleet.rig import Rig, Servers


class Tier(StrEnum):
    QUICK = "quick"
    NIGHTLY = "nightly"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class Alone:
    """A trial on a pipeline of its own, which nobody has started yet."""

    run: Callable[[Rig, Servers, Tier, random.Random], Outcome]
    settings: Callable[[Tier], Mapping[str, object]]
    options: Mapping[str, object] = field(default_factory=dict)
    """Of its sink, beside those of all."""


@dataclass(frozen=True, slots=True)
class Variant:
    name: str
    fault: Fault | Alone
    quick: int = 0
    """Trials in the quick tier; the others multiply."""
    nightly: int = 10
    needs: Callable[[], str] | None = None
    """Tells what the machine would have to have for it and lacks, or nothing."""
    lost: bool = False
    """Afterwards the pipeline must be called LOST, and is used no more."""

    @property
    def lacks(self) -> str:
        return self.needs() if self.needs is not None else ""

    def trials(self, tier: Tier) -> int:
        return {Tier.QUICK: self.quick, Tier.NIGHTLY: self.nightly, Tier.RELEASE: 4 * self.nightly}[tier]


@dataclass(frozen=True, slots=True)
class Case:
    number: str
    title: str
    invariants: str
    variants: Sequence[Variant] = ()
    missing: str = ""
    """Why it is not built, or what of it is not."""
