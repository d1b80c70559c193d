"""Conditions over columns as a tree that names all they may do. `expression_text.py` reads it from text.

Invariant: who works with a condition sees these nodes and no text of it.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Name:
    column: str


@dataclass(frozen=True, slots=True)
class Literal:
    value: str | Decimal | bool | None


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    argument: "Value"


Value: TypeAlias = Name | Literal | Call


@dataclass(frozen=True, slots=True)
class Compare:
    operator: str
    left: Value
    right: Value


@dataclass(frozen=True, slots=True)
class IsNull:
    value: Value


@dataclass(frozen=True, slots=True)
class Like:
    value: Value
    pattern: str


@dataclass(frozen=True, slots=True)
class Truth:
    """A value that is a condition by itself."""

    value: Value


@dataclass(frozen=True, slots=True)
class Not:
    condition: "Condition"


@dataclass(frozen=True, slots=True)
class Junction:
    is_and: bool
    conditions: "tuple[Condition, ...]"


Condition: TypeAlias = Compare | IsNull | Like | Truth | Not | Junction


def columns_of(tree: Condition | Value) -> frozenset[str]:
    match tree:
        case Name():
            return frozenset({tree.column})
        case Literal():
            return frozenset()
        case Call():
            return columns_of(tree.argument)
        case Compare():
            return columns_of(tree.left) | columns_of(tree.right)
        case IsNull() | Like() | Truth():
            return columns_of(tree.value)
        case Not():
            return columns_of(tree.condition)
        case Junction():
            return frozenset().union(*map(columns_of, tree.conditions))
