"""The words of an expression, each with its place. `expression_text.py` makes sense of them."""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple

WORDS: Final = frozenset(
    {"AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS", "NULL", "TRUE", "FALSE", "CASE", "WHEN", "THEN", "ELSE", "END"}
)


class ExpressionError(ValueError):
    """What is wrong, and at which character."""

    def __init__(self, reason: str, at: int) -> None:
        super().__init__(f"{reason} (at character {at + 1})")


class Kind(StrEnum):
    NAME = "name"
    WORD = "word"
    TEXT = "text"
    NUMBER = "number"
    MARK = "mark"
    END = "end"


class Token(NamedTuple):
    kind: Kind
    text: str
    at: int


_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>\d{1,40}(?:\.\d{1,40})?)(?![\w.])
    | (?P<name>[A-Za-z_][A-Za-z0-9_]{0,62})
    | "(?P<quoted>(?:[^"\x00]|""){1,126})"
    | '(?P<text>(?:[^'\x00]|'')*)'
    | (?P<mark><>|!=|<=|>=|\|\||(?!--)[-=<>(),+*])
    )""",
    re.ASCII | re.VERBOSE,
)


def tokens(text: str) -> Iterator[Token]:
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise ExpressionError("neither a name, a literal nor an operator", at)
        start = match.start(match.lastgroup or 0)
        at = match.end()
        found = match[match.lastgroup or 0]
        match match.lastgroup:
            case "number":
                yield Token(Kind.NUMBER, found, start)
            case "name" if found.upper() in WORDS:
                yield Token(Kind.WORD, found.upper(), start)
            case "name":
                yield Token(Kind.NAME, found.lower(), start)
            case "quoted":
                yield Token(Kind.NAME, found.replace('""', '"'), start)
            case "text":
                yield Token(Kind.TEXT, found.replace("''", "'"), start)
            case _:
                yield Token(Kind.MARK, found, start)
    yield Token(Kind.END, "", end)
