"""What a caller may do: four scopes that imply nothing about each other, and the one that each endpoint asks for.

Invariant: an endpoint that does not say who may call it can be called by nobody.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

_ATTRIBUTE: Final = "__tidegate_scope__"


class Scope(StrEnum):
    READ = "read"
    """States, lags, names, counts: nothing of a row."""
    DATA = "data"
    """Rows: frames, events, payloads of dead letters."""
    OPERATE = "operate"
    """Changes that lose nothing."""
    DESTROY = "destroy"
    """Changes that cannot be taken back."""


class Open(StrEnum):
    """For the two probes: no token is asked for."""

    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Caller:
    id: str
    name: str
    scopes: frozenset[Scope]


F = TypeVar("F", bound=Callable[..., object])


def needs(scope: Scope | Open) -> Callable[[F], F]:
    def mark(endpoint: F) -> F:
        setattr(endpoint, _ATTRIBUTE, scope)
        return endpoint

    return mark


def scope_of(endpoint: object) -> Scope | Open | None:
    found: Scope | Open | None = getattr(endpoint, _ATTRIBUTE, None)
    return found


def parse_scopes(names: Iterable[str]) -> frozenset[Scope]:
    """Raises ValueError for a name that is none."""
    return frozenset(Scope(name) for name in names)


def operation_id(endpoint: str) -> str:
    """`drop_slot` is dropSlot: to clients, in the list of changes and in the documents."""
    head, *rest = endpoint.split("_")
    return head + "".join(part.capitalize() for part in rest)
