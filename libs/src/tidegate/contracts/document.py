"""JSON from outside, read strictly: one object of UTF-8 text that says nothing twice and nothing JSON does not know.

Invariant: `load` and `build` give a whole value of the named type or raise ValueError, and read nothing that is longer
than the caller allows. Members that a type does not know are left alone: they come from a newer writer.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import lru_cache
from typing import Any, TypeVar, get_origin, get_type_hints

Built = TypeVar("Built")

SHORT_BYTES = 65_536
"""Longest value that is kept in Redis or beside an offset; ours have less than 2 kB."""


def load(value: bytes, *, limit: int | None = None) -> dict[str, object]:
    if limit is not None and len(value) > limit:
        raise ValueError("too long")
    try:
        # From text: given bytes, json would also guess at UTF-16 and UTF-32.
        text = value.decode()
        document = _DECODER.decode(text)
        if "\\u" in text and "\\ud" in text.lower():
            json.dumps(document, ensure_ascii=False).encode()  # half of a surrogate pair can't be written again
    except RecursionError:
        raise ValueError("too deep") from None
    if not isinstance(document, dict):
        raise ValueError("not an object")
    return document


def build(cls: type[Built], members: object) -> Built:
    """`cls`, a dataclass, of those members that it knows; each must be of its field's type."""
    if not isinstance(members, Mapping):
        raise ValueError("not an object")
    slots = _slots(cls)  # type: ignore[arg-type]  # every class is hashable
    if slots is None:
        return _build_by_call(cls, members)
    # Each slot by its own setter: a frozen class's __init__ takes three times as long, and half of all reading.
    made = object.__new__(cls)
    for name, put, hint, default in slots:
        value = members.get(name, default)
        # Most are of their field's very type, which is quickly seen.
        if type(value) is not hint and value is not default and not _fits(value, hint):
            raise ValueError(f"{name} is of another type")
        if value is MISSING:
            raise ValueError("a member is missing")
        put(made, value)
    return made


def _build_by_call(cls: type[Built], members: Mapping[Any, Any]) -> Built:
    hints = _hints(cls)  # type: ignore[arg-type]
    known = {name: value for name, value in members.items() if name in hints}
    for name, value in known.items():
        if not _fits(value, hints[name]):
            raise ValueError(f"{name} is of another type")
    try:
        return cls(**known)
    except TypeError:
        raise ValueError("a member is missing") from None


@lru_cache
def _slots(cls: type[Any]) -> tuple[tuple[str, Callable[[Any, Any], None], Any, Any], ...] | None:
    """Name, setter, type, default; none where something has to be done when one is made."""
    hints = _hints(cls)  # type: ignore[arg-type]
    is_plain = hasattr(cls, "__slots__") and not hasattr(cls, "__post_init__")
    if not is_plain or any(each.default_factory is not MISSING for each in fields(cls)):
        return None
    return tuple((each.name, getattr(cls, each.name).__set__, hints[each.name], each.default) for each in fields(cls))


@lru_cache
def _hints(cls: type[Any]) -> dict[str, Any]:
    assert is_dataclass(cls)
    return {name: _runtime(hint) for name, hint in get_type_hints(cls).items()}


def _runtime(hint: Any) -> Any:
    """What isinstance takes: the class behind `Lsn`, `tuple[bytes, ...]` or `dict[str, object]`."""
    origin = get_origin(hint)
    return origin if origin in (tuple, dict) else getattr(hint, "__supertype__", hint)


def _fits(value: object, hint: Any) -> bool:
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, hint) or (hint is float and isinstance(value, int))


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member stands twice")
    return members


def _not_json(token: str) -> object:
    raise ValueError(f"{token} is not JSON")


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError("a number beyond all bounds")
    return value


# Made once: json.loads makes one a call, and the admin service reads two thousand values a second.
_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_not_json, parse_float=_finite)
