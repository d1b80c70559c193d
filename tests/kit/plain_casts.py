"""PostgreSQL's text to the value that a typed column must hold, in plain Python: the reference of `columns.casts`.

Invariant: as `plain_cells`, but BEYOND in place of an exception.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from kit.plain_cells import CELLS, Beyond, matched

from tidegate.columns.casts import Cast, Nest

BEYOND: Final = object()


def plain_cast(text: bytes | None, cast: Cast) -> Any:
    if text is None:
        return None
    try:
        return _value(text, cast)
    except (Beyond, UnicodeDecodeError):
        return BEYOND


def _value(text: bytes, cast: Cast) -> Any:
    return CELLS[cast.cell](text, cast) if cast.nest is None else _NESTS[cast.nest](text, cast)


def _element(cast: Cast) -> Cast:
    assert cast.element is not None
    return cast.element


def _parsed(text: bytes, delimiter: bytes) -> tuple[list[tuple[int, int]], list[bytes | None]]:
    """Dimensions and flat elements of an array's text, by descent."""
    prefix = re.match(rb"((?:\[-?\d{1,10}:-?\d{1,10}\])+)=", text)
    declared = [tuple(map(int, pair)) for pair in re.findall(rb"\[(-?\d+):(-?\d+)\]", prefix[1])] if prefix else []
    body = text[prefix.end() :] if prefix else text
    if body == b"{}" and not declared:
        return [], []
    nested, end = _list(body, 0, delimiter)
    if end != len(body):
        raise Beyond
    lengths, elements = _shape(nested)
    if len(lengths) > 6 or (declared and [upper - lower + 1 for lower, upper in declared] != lengths):
        raise Beyond
    if any(not -(2**31) <= bound < 2**31 for pair in declared for bound in pair):
        raise Beyond
    return [(declared[at][0] if declared else 1, length) for at, length in enumerate(lengths)], elements


def _list(body: bytes, at: int, delimiter: bytes) -> tuple[Any, int]:
    if body[at : at + 1] != b"{":
        raise Beyond
    items: list[Any] = []
    while True:
        at += 1
        if body[at : at + 1] == b"{":
            item, at = _list(body, at, delimiter)
        elif quoted := re.compile(rb'"((?:[^"\\]|\\.)*)"', re.DOTALL).match(body, at):
            item, at = re.sub(rb"\\(.)", rb"\1", quoted[1], flags=re.DOTALL), quoted.end()
        elif plain := re.compile(rb'[^{}"\\%b]+' % delimiter, re.DOTALL).match(body, at):
            item, at = None if plain[0] == b"NULL" else plain[0], plain.end()
        else:
            raise Beyond
        items.append(item)
        if body[at : at + 1] != delimiter:
            break
    if body[at : at + 1] != b"}":
        raise Beyond
    return items, at + 1


def _shape(nested: Any) -> tuple[list[int], list[bytes | None]]:
    if not isinstance(nested, list):
        return [], [nested]
    shapes = [_shape(each) for each in nested]
    if any(lengths != shapes[0][0] for lengths, _ in shapes):
        raise Beyond
    return [len(nested), *shapes[0][0]], [element for _, elements in shapes for element in elements]


def _all(elements: list[bytes | None], cast: Cast) -> list[Any]:
    return [None if element is None else _value(element, _element(cast)) for element in elements]


def _array(text: bytes, cast: Cast) -> list[Any]:
    dimensions, elements = _parsed(text, cast.delimiter)
    if len(dimensions) > 1 or (dimensions and dimensions[0][0] != 1):
        raise Beyond
    return _all(elements, cast)


def _dimensioned(text: bytes, cast: Cast) -> dict[str, Any]:
    dimensions, elements = _parsed(text, cast.delimiter)
    bounds = [{"lower": lower, "length": length} for lower, length in dimensions]
    return {"elements": _all(elements, cast), "dimensions": bounds}


def _range(text: bytes, cast: Cast) -> dict[str, Any]:
    bound = r'(?:"([^"\\,()\[\]]+)"|([^"\\,()\[\] ]*))'
    if text == b"empty":
        return {"lower": None, "upper": None, "lower_inclusive": False, "upper_inclusive": False, "empty": True}
    found = matched(rf"([\[(]){bound},{bound}([\])])", text.decode("latin-1"))
    first, quoted, plain, quoted_upper, plain_upper, last = found.groups()
    bounds = [(quoted or plain).encode("latin-1"), (quoted_upper or plain_upper).encode("latin-1")]
    lower, upper = (_value(each, _element(cast)) if each else None for each in bounds)
    return {
        "lower": lower,
        "upper": upper,
        "lower_inclusive": first == "[",
        "upper_inclusive": last == "]",
        "empty": False,
    }


def _multirange(text: bytes, cast: Cast) -> list[Any]:
    item = r"[^\])]*[\])]"
    found = matched(rf"\{{((?:{item}(?:,{item})*)?)\}}", text.decode("latin-1")).group(1)
    return [_value(each.encode("latin-1"), _element(cast)) for each in re.findall(rf"({item}),?", found, re.DOTALL)]


def _vector(text: bytes, cast: Cast) -> list[Any]:
    found = matched(r"\[((?:[^,]+(?:,[^,]+)*)?)\]", text.decode("latin-1")).group(1)
    return [_value(each.encode("latin-1"), _element(cast)) for each in found.split(",")] if found else []


def _hstore(text: bytes, cast: Cast) -> list[dict[str, str | None]]:
    quoted = rb'"((?:[^"\\]|\\.)*)"'
    entry = rb"%b=>(?:%b|(NULL))" % (quoted, quoted)
    if not re.fullmatch(rb"(?:%b(?:, %b)*)?" % (entry, entry), text, re.DOTALL):
        raise Beyond
    found = []
    for key, value, null in re.findall(entry, text, re.DOTALL):
        plain = [re.sub(rb"\\(.)", rb"\1", each, flags=re.DOTALL).decode() for each in (key, value)]
        found.append({"key": plain[0], "value": None if null else plain[1]})
    return found


def _numbers(text: bytes, cast: Cast) -> dict[str, float]:
    pattern = re.escape(cast.pattern).replace(r"\#", "#").replace("#", r"([^,()<>{}\[\]]+)")
    numbers = matched(pattern, text.decode("latin-1")).groups()
    return {name: _value(number.encode(), _element(cast)) for name, number in zip(cast.names, numbers, strict=True)}


def _polygon(text: bytes, cast: Cast) -> list[Any]:
    if text[:1] + text[-1:] != b"()" or len(text) < 2:
        raise Beyond
    return _multirange(b"{" + text[1:-1] + b"}", cast)


def _path(text: bytes, cast: Cast) -> dict[str, Any]:
    if text[:1] + text[-1:] not in (b"()", b"[]") or len(text) < 2:
        raise Beyond
    return {"closed": text[:1] == b"(", "points": _multirange(b"{" + text[1:-1] + b"}", cast)}


_NESTS: dict[Nest, Callable[[bytes, Cast], Any]] = {
    Nest.ARRAY: _array,
    Nest.DIMENSIONED: _dimensioned,
    Nest.VECTOR: _vector,
    Nest.RANGE: _range,
    Nest.MULTIRANGE: _multirange,
    Nest.HSTORE: _hstore,
    Nest.NUMBERS: _numbers,
    Nest.POLYGON: _polygon,
    Nest.PATH: _path,
}
