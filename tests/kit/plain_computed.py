"""Computed columns by plain Python, row by row: what expressions over one table come to, and how pgoutput says it."""

from collections.abc import Callable, Mapping
from decimal import Decimal

from tidegate.pgoutput.messages import UNCHANGED, Column, Relation, ReplicaIdentity, Row, Value
from tidegate.pgoutput.types import BUILT_IN

_KINDS = {"id": "int4", "price": "numeric", "amount": "int8", "note": "text", "paid": "bool", "size": "float8"}
COLUMNS = tuple(Column(int(name == "id"), name, BUILT_IN[kind], -1) for name, kind in _KINDS.items())
ORDERS = Relation(7, "public", "orders", ReplicaIdentity.DEFAULT, COLUMNS)
OTHERS = Relation(9, "public", "others", ReplicaIdentity.DEFAULT, COLUMNS[:2])
Plain = Mapping[str, object]


class Unsent(Exception):
    """A value that is needed was not sent."""


class Beyond(Exception):
    """A value that is needed is none that can be computed with."""


class Plainly(dict[str, object]):
    """A row as plain values; to ask for what is not known raises."""

    def __getitem__(self, name: str) -> object:
        found = super().__getitem__(name)
        if found is UNCHANGED:
            raise Unsent
        if isinstance(found, Decimal) and not found.is_finite():
            raise Beyond
        return found


def _total(row: Plain) -> object:
    price, amount = row["price"], row["amount"]
    return None if price is None or amount is None else price * amount  # type: ignore[operator]


def _label(row: Plain) -> object:
    number, note = row["id"], row["note"]
    return None if number is None or note is None else f"#{number} {str(note).upper()}"


def _state(row: Plain) -> object:
    if row["paid"]:
        return "paid"
    amount = row["amount"]
    return "small" if amount is not None and amount < 10 else None  # type: ignore[operator]


def _first(row: Plain) -> object:
    note = row["note"]
    return "none" if note is None else note


def _twice(row: Plain) -> object:
    size = row["size"]
    return None if size is None else float(size) * 2  # type: ignore[arg-type]


COMPUTED: Mapping[str, tuple[str, Callable[[Plain], object]]] = {
    "total": ("price * amount", _total),
    "label": ("'#' || id || ' ' || upper(note)", _label),
    "state": ("CASE WHEN paid THEN 'paid' WHEN amount < 10 THEN 'small' END", _state),
    "first": ("coalesce(note, 'none')", _first),
    "twice": ("size * 2", _twice),
    "where": ("'eu'", lambda _: "eu"),
}
TYPES = {"total": "numeric", "twice": "float8"}


def plain(row: Row) -> Plainly:
    return Plainly({name: _plain(kind, value) for (name, kind), value in zip(_KINDS.items(), row, strict=True)})


def _plain(kind: str, value: Value) -> object:
    if value is None or value is UNCHANGED:
        return value
    text = bytes(value).decode()  # type: ignore[arg-type]
    match kind:
        case "text":
            return text
        case "bool":
            return text == "t"
        case "float8":
            return float(text)
        case _:
            return Decimal(text)


def shown(value: object) -> Value:
    if value is None:
        return None
    if isinstance(value, Decimal):
        text = f"{value:f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return text.encode() if value else b"0"
    return (str(value).removesuffix(".0") if isinstance(value, float) else str(value)).encode()


def by_reference(row: Row, *, is_key: bool) -> Row | None:
    """None: refused."""
    if is_key:
        return (*row, *[None] * len(COMPUTED))
    made: list[Value] = []
    for _, compute in COMPUTED.values():
        try:
            made.append(shown(compute(plain(row))))
        except Unsent:
            made.append(UNCHANGED)
        except Beyond:
            return None
    return (*row, *made)
