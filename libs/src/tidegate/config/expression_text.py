"""Conditions over columns, as text in a configuration: an SQL of our own, read into a tree that names all it may do.

    condition = [NOT] comparison {AND | OR condition}     ( … ) anywhere
    comparison = value (= | <> | != | < | <= | > | >=) value
               | value [NOT] IN (literal, …) | value [NOT] BETWEEN value AND value
               | value [NOT] LIKE 'pattern' | value IS [NOT] NULL | column of type boolean
    value      = column | "Column" | literal | function(value)

Invariant: the text reaches no engine, only this tree does; what is not in the grammar is refused, and so is a text that
is too long or nests too deep. No error repeats a piece of the text.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from enum import StrEnum
from typing import Final, NamedTuple

from tidegate.config.expression import (
    Call,
    Compare,
    Condition,
    IsNull,
    Junction,
    Like,
    Literal,
    Name,
    Not,
    Truth,
    Value,
)

MAX_CHARACTERS: Final = 10_000
MAX_DEPTH: Final = 50

FUNCTIONS: Final = ("abs", "length", "lower", "trim", "upper")
"""Of one value each."""

_WORDS: Final = frozenset({"AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS", "NULL", "TRUE", "FALSE"})
_COMPARISONS: Final = {"=": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


class ExpressionError(ValueError):
    """What is wrong, and at which character."""

    def __init__(self, reason: str, at: int) -> None:
        super().__init__(f"{reason} (at character {at + 1})")


class _Kind(StrEnum):
    NAME = "name"
    WORD = "word"
    TEXT = "text"
    NUMBER = "number"
    MARK = "mark"
    END = "end"


class _Token(NamedTuple):
    kind: _Kind
    text: str
    at: int


_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>\d{1,40}(?:\.\d{1,40})?)(?![\w.])
    | (?P<name>[A-Za-z_][A-Za-z0-9_]{0,62})
    | "(?P<quoted>(?:[^"\x00]|""){1,126})"
    | '(?P<text>(?:[^'\x00]|'')*)'
    | (?P<mark><>|!=|<=|>=|[-=<>(),])
    )""",
    re.ASCII | re.VERBOSE,
)


def parse(text: str) -> Condition:
    if len(text) > MAX_CHARACTERS:
        raise ExpressionError("longer than it may be", MAX_CHARACTERS)
    return _Parser(list(_tokens(text))).parse()


def _tokens(text: str) -> Iterator[_Token]:
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
                yield _Token(_Kind.NUMBER, found, start)
            case "name" if found.upper() in _WORDS:
                yield _Token(_Kind.WORD, found.upper(), start)
            case "name":
                yield _Token(_Kind.NAME, found.lower(), start)
            case "quoted":
                yield _Token(_Kind.NAME, found.replace('""', '"'), start)
            case "text":
                yield _Token(_Kind.TEXT, found.replace("''", "'"), start)
            case _:
                yield _Token(_Kind.MARK, found, start)
    yield _Token(_Kind.END, "", end)


class _Parser:
    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens, self._at, self._depth = tokens, 0, 0

    def parse(self) -> Condition:
        tree = self._condition()
        if self._next.kind is not _Kind.END:
            raise ExpressionError("nothing was expected here", self._next.at)
        return _condition_of(tree, 0)

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self, *texts: str) -> str:
        """The next token, if it is one of these words or marks; else nothing."""
        token = self._next
        if token.kind in (_Kind.WORD, _Kind.MARK) and token.text in texts:
            self._at += 1
            return token.text
        return ""

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise ExpressionError(f"{text} was expected", self._next.at)

    def _condition(self) -> "Condition | Value":
        return self._junction("OR")

    def _junction(self, word: str) -> "Condition | Value":
        start = self._next.at
        parts = [self._junction("AND") if word == "OR" else self._negation()]
        while self._take(word):
            parts.append(self._junction("AND") if word == "OR" else self._negation())
        if len(parts) == 1:
            return parts[0]
        return Junction(word == "AND", tuple(_condition_of(part, start) for part in parts))

    def _negation(self) -> "Condition | Value":
        start = self._next.at
        if not self._take("NOT"):
            return self._comparison()
        with self._nested(start):
            return Not(_condition_of(self._negation(), start))

    def _comparison(self) -> "Condition | Value":
        start = self._next.at
        left = self._primary()
        operator = self._take(*_COMPARISONS)
        if operator:
            return Compare(_COMPARISONS[operator], _value_of(left, start), _value_of(self._primary(), start))
        if self._take("IS"):
            negated = self._take("NOT")
            self._expect("NULL")
            test: Condition = IsNull(_value_of(left, start))
            return Not(test) if negated else test
        negated = self._take("NOT")
        made = self._test(left, start)
        if made is None:
            if negated:
                raise ExpressionError("IN, BETWEEN or LIKE was expected", self._next.at)
            return left
        return Not(made) if negated else made

    def _test(self, left: "Condition | Value", start: int) -> Condition | None:
        if self._take("IN"):
            self._expect("(")
            value = _value_of(left, start)
            choices = [Compare("=", value, self._literal())]
            while self._take(","):
                choices.append(Compare("=", value, self._literal()))
            self._expect(")")
            return Junction(False, tuple(choices))
        if self._take("BETWEEN"):
            value = _value_of(left, start)
            low = _value_of(self._primary(), start)
            self._expect("AND")
            return Junction(True, (Compare(">=", value, low), Compare("<=", value, _value_of(self._primary(), start))))
        if self._take("LIKE"):
            pattern = self._next
            if pattern.kind is not _Kind.TEXT:
                raise ExpressionError("a text was expected", pattern.at)
            self._at += 1
            return Like(_value_of(left, start), pattern.text)
        return None

    def _primary(self) -> "Condition | Value":
        token = self._next
        if self._take("("):
            with self._nested(token.at):
                inner = self._condition()
            self._expect(")")
            return inner
        if token.kind is not _Kind.NAME:
            return self._literal()
        self._at += 1
        return self._call(token) if self._take("(") else Name(token.text)

    def _call(self, name: _Token) -> Call:
        if name.text not in FUNCTIONS:
            raise ExpressionError(f"no function of these: {', '.join(FUNCTIONS)}", name.at)
        with self._nested(name.at):
            argument = _value_of(self._primary(), name.at)
        self._expect(")")
        return Call(name.text, argument)

    def _literal(self) -> Literal:
        token = self._next
        self._at += token.kind is not _Kind.END
        match token:
            case (_Kind.TEXT, text, _):
                return Literal(text)
            case (_Kind.NUMBER, text, _):
                return Literal(Decimal(text))
            case (_Kind.MARK, "-", _):
                inner = self._literal()
                if isinstance(inner.value, Decimal):
                    return Literal(-inner.value)
            case (_Kind.WORD, ("TRUE" | "FALSE") as word, _):
                return Literal(word == "TRUE")
        raise ExpressionError("a value was expected; for NULL, write IS NULL", token.at)

    @contextmanager
    def _nested(self, at: int) -> Iterator[None]:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ExpressionError("nested too deep", at)
        yield
        self._depth -= 1


def _condition_of(tree: Condition | Value, at: int) -> Condition:
    if isinstance(tree, Name):
        return Truth(tree)
    if isinstance(tree, Literal | Call):
        raise ExpressionError("a condition was expected, not a value", at)
    return tree


def _value_of(tree: Condition | Value, at: int) -> Value:
    if isinstance(tree, Name | Literal | Call):
        return tree
    raise ExpressionError("a value was expected, not a condition", at)
