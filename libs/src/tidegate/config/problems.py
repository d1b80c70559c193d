"""From a validator's errors to problems in the words of the person who has to mend them.

Invariant: the value that was refused is never repeated; it may be a password in the wrong place.
"""

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import ErrorDetails, PydanticCustomError

from tidegate.errors import Problem

Path = tuple[str | int, ...]

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", re.ASCII)
_BOOLEAN_WORDS = {"yes", "no", "on", "off", "y", "n", "true", "false"}


@dataclass(frozen=True, slots=True)
class _Rule:
    code: str
    reason: str
    remedy: str


_MISSING = _Rule(code="CONFIG_MISSING", reason="is required", remedy="Add it.")
_UNKNOWN = _Rule(code="CONFIG_UNKNOWN_KEY", reason="unknown key", remedy="Remove it.")
_CHOICE = _Rule(code="CONFIG_CHOICE", reason="not one of the values allowed here", remedy="Choose one of: {choices}.")
_TYPE = _Rule(code="CONFIG_TYPE", reason="expected {wanted}, got {given}", remedy="Write {wanted}.")
_RANGE = _Rule(code="CONFIG_RANGE", reason="out of range: {bound}", remedy="Choose a value within the range.")
_FORMAT = _Rule(code="CONFIG_FORMAT", reason="does not have the form asked for", remedy="It has to match {pattern}.")
_OTHER = _Rule(code="CONFIG_REFUSED", reason="refused ({kind})", remedy="See docs/reference/configuration.md.")

_WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_BOUNDS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("more than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}
_LENGTHS = {"too_short": ("at least", "min_length"), "too_long": ("at most", "max_length")}


def refuse(*, code: str, reason: str, remedy: str) -> PydanticCustomError:
    """What a validator raises. The texts are constants: no value of the file belongs in them."""
    # The template engine of the error would take braces for fields, so the texts travel as context.
    return PydanticCustomError(code, "{reason}", {"reason": reason, "remedy": remedy})


def problem_from(error: ErrorDetails, keys: Sequence[str] = ()) -> Problem:
    """`keys` are the keys known at the place of an unknown one."""
    path = format_path(error["loc"])
    kind, context = error["type"], error.get("ctx", {})
    if kind.isupper():
        return Problem(path, kind, str(context["reason"]), str(context["remedy"]))
    if kind == "missing":
        return _problem(_MISSING, path)
    if kind == "extra_forbidden":
        return _unknown_key(path, str(error["loc"][-1]), keys)
    if kind in ("enum", "literal_error"):
        return _choice(path, error["input"], str(context["expected"]))
    if kind in _WANTED:
        return _wrong_type(path, _WANTED[kind], error["input"])
    if kind in _BOUNDS:
        words, key = _BOUNDS[kind]
        return _problem(_RANGE, path, bound=f"{words} {context[key]}")
    if kind.removeprefix("string_") in _LENGTHS:
        words, key = _LENGTHS[kind.removeprefix("string_")]
        return _problem(_RANGE, path, bound=f"{words} {context[key]} {'characters' if 'string' in kind else 'entries'}")
    if kind == "string_pattern_mismatch":
        return _problem(_FORMAT, path, pattern=str(context["pattern"]))
    return _problem(_OTHER, path, kind=kind)


def format_path(location: Iterable[str | int]) -> str:
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if _PLAIN_KEY.fullmatch(part) else ascii(part[:64])
            text += f".{name}" if text else name
    return text or "(file)"


def did_you_mean(given: str, known: Iterable[str]) -> str:
    lowered = {name.lower(): name for name in known}
    close = difflib.get_close_matches(given.lower()[:64], lowered, n=1)
    return f"Did you mean {lowered[close[0]]}?" if close else ""


def describe(value: object) -> str:
    """The kind of a value, without the value."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true or false"
    names: list[tuple[type[Any], str]] = [
        (int, "a whole number"),
        (float, "a fraction"),
        (str, "text"),
        (list, "a list"),
        (dict, "a mapping"),
    ]
    return next((name for kind, name in names if isinstance(value, kind)), "something else")


def _problem(rule: _Rule, path: str, **fields: str) -> Problem:
    return Problem(path, rule.code, rule.reason.format(**fields), rule.remedy.format(**fields))


def _unknown_key(path: str, key: str, keys: Sequence[str]) -> Problem:
    known = f"Known here: {', '.join(keys)}." if keys else _UNKNOWN.remedy
    return Problem(path, _UNKNOWN.code, _UNKNOWN.reason, did_you_mean(key, keys) or known)


def _choice(path: str, given: object, expected: str) -> Problem:
    choices = re.findall(r"'([^']*)'", expected)
    hint = did_you_mean(given, choices) if isinstance(given, str) else ""
    problem = _problem(_CHOICE, path, choices=", ".join(choices))
    return Problem(path, problem.code, problem.reason, f"{hint} {problem.remedy}".strip())


def _wrong_type(path: str, wanted: str, given: object) -> Problem:
    problem = _problem(_TYPE, path, wanted=wanted, given=describe(given))
    if wanted == _WANTED["bool_type"] and isinstance(given, str) and given.lower() in _BOOLEAN_WORDS:
        return Problem(path, problem.code, problem.reason, "Only true and false, unquoted, are truth values.")
    return problem
