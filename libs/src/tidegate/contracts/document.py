"""JSON from outside, read strictly: one object of UTF-8 text that says nothing twice and nothing JSON does not know.

Invariant: `load` and `build` give a whole value of the named type or raise ValueError, and read nothing that is longer
than the caller allows. Members that a type does not know are left alone: they come from a newer writer.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import is_dataclass
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
        if "\\ud" in text.lower():
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
    hints = _hints(cls)  # type: ignore[arg-type]  # every class is hashable
    known = {name: value for name, value in members.items() if name in hints}
    for name, value in known.items():
        if not _fits(value, hints[name]):
            raise ValueError(f"{name} is of another type")
    try:
        return cls(**known)
    except TypeError:
        raise ValueError("a member is missing") from None


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
