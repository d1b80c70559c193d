"""Values and conditions over columns as a tree that names all they may do. `expression_text.py` reads it from text.

Invariant: who works with an expression sees these nodes and no text of it.
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
    arguments: "tuple[Value, ...]"


@dataclass(frozen=True, slots=True)
class Operate:
    operator: str
    """One of `+` `-` `*` `||`."""
    left: "Value"
    right: "Value"


@dataclass(frozen=True, slots=True)
class Choose:
    """The value of the first condition that is true."""

    cases: "tuple[tuple[Condition, Value], ...]"
    otherwise: "Value | None"


Value: TypeAlias = Name | Literal | Call | Operate | Choose


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
    if isinstance(tree, Name):
        return frozenset({tree.column})
    return frozenset().union(*map(columns_of, _parts(tree)))


def _parts(tree: Condition | Value) -> "tuple[Condition | Value, ...]":
    match tree:
        case Call():
            return tree.arguments
        case Operate() | Compare():
            return tree.left, tree.right
        case Choose():
            cases = tuple(part for case in tree.cases for part in case)
            return cases if tree.otherwise is None else (*cases, tree.otherwise)
        case IsNull() | Like() | Truth():
            return (tree.value,)
        case Not():
            return (tree.condition,)
        case Junction():
            return tree.conditions
        case _:
            return ()
