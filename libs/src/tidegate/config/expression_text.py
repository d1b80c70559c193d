"""Conditions and values over columns, as text in a configuration: an SQL of our own, read into a tree.

    condition  = [NOT] comparison {AND | OR condition}     ( … ) anywhere
    comparison = value (= | <> | != | < | <= | > | >=) value
               | value [NOT] IN (literal, …) | value [NOT] BETWEEN value AND value
               | value [NOT] LIKE 'pattern' | value IS [NOT] NULL | column of type boolean
    value      = sum {|| sum}      sum = product {+ | - product}      product = factor {* factor}
    factor     = [-] (column | "Column" | literal | function(value, …)
               | CASE WHEN condition THEN value … [ELSE value] END)

Invariant: the text reaches no engine, only this tree does; what is not in the grammar is refused, and so is a text that
is too long or nests too deep. No error repeats a piece of the text.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Final

from tidegate.config.expression import (
    Call,
    Choose,
    Compare,
    Condition,
    IsNull,
    Junction,
    Like,
    Literal,
    Name,
    Not,
    Operate,
    Truth,
    Value,
)
from tidegate.config.expression_tokens import ExpressionError, Kind, Token, tokens

MAX_CHARACTERS: Final = 10_000
MAX_DEPTH: Final = 50
MAX_OPERATIONS: Final = 200
"""Each makes a tree deeper that is walked by calls."""

_ONE, _MANY = (1, 1), (2, 20)
FUNCTIONS: Final = {
    "abs": _ONE,
    "coalesce": _MANY,
    "length": _ONE,
    "lower": _ONE,
    "nullif": (2, 2),
    "replace": (3, 3),
    "round": (1, 2),
    "substr": (2, 3),
    "trim": _ONE,
    "upper": _ONE,
}
"""How many values each takes, at least and at most."""
_LITERAL_FROM: Final = {"replace": 1, "round": 1, "substr": 1}
"""From this argument on, they are literals."""

_COMPARISONS: Final = {"=": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_OPERATORS: Final = (("||",), ("+", "-"), ("*",))
"""Those that bind loosest come first."""


def parse(text: str) -> Condition:
    """A condition."""
    tree = _read(text)
    return _condition_of(tree, 0)


def parse_value(text: str) -> Value:
    return _value_of(_read(text), 0)


def _read(text: str) -> "Condition | Value":
    if len(text) > MAX_CHARACTERS:
        raise ExpressionError("longer than it may be", MAX_CHARACTERS)
    return _Parser(list(tokens(text))).parse()


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens, self._at, self._depth, self._operations = tokens, 0, 0, 0

    def parse(self) -> "Condition | Value":
        tree = self._condition()
        if self._next.kind is not Kind.END:
            raise ExpressionError("nothing was expected here", self._next.at)
        return tree

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self, *texts: str) -> str:
        """The next token, if it is one of these words or marks; else nothing."""
        token = self._next
        if token.kind in (Kind.WORD, Kind.MARK) and token.text in texts:
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
        left = self._operation()
        operator = self._take(*_COMPARISONS)
        if operator:
            return Compare(_COMPARISONS[operator], _value_of(left, start), self._value())
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
            low = self._value()
            self._expect("AND")
            return Junction(True, (Compare(">=", value, low), Compare("<=", value, self._value())))
        if self._take("LIKE"):
            pattern = self._next
            if pattern.kind is not Kind.TEXT:
                raise ExpressionError("a text was expected", pattern.at)
            self._at += 1
            return Like(_value_of(left, start), pattern.text)
        return None

    def _value(self) -> Value:
        start = self._next.at
        return _value_of(self._operation(), start)

    def _operation(self, level: int = 0) -> "Condition | Value":
        if level == len(_OPERATORS):
            return self._factor()
        start = self._next.at
        left = self._operation(level + 1)
        while operator := self._take(*_OPERATORS[level]):
            self._operations += 1
            if self._operations > MAX_OPERATIONS:
                raise ExpressionError("more operations than it may have", start)
            left = Operate(operator, _value_of(left, start), _value_of(self._operation(level + 1), start))
        return left

    def _factor(self) -> "Condition | Value":
        start = self._next.at
        if not self._take("-"):
            return self._primary()
        with self._nested(start):
            inner = _value_of(self._factor(), start)
        if isinstance(inner, Literal) and isinstance(inner.value, Decimal):
            return Literal(-inner.value)
        return Operate("-", Literal(Decimal(0)), inner)

    def _primary(self) -> "Condition | Value":
        token = self._next
        if self._take("("):
            with self._nested(token.at):
                inner = self._condition()
            self._expect(")")
            return inner
        if self._take("CASE"):
            with self._nested(token.at):
                return self._choice()
        if token.kind is not Kind.NAME:
            return self._literal()
        self._at += 1
        return self._call(token) if self._take("(") else Name(token.text)

    def _call(self, name: Token) -> Call:
        if name.text not in FUNCTIONS:
            raise ExpressionError(f"no function of these: {', '.join(FUNCTIONS)}", name.at)
        least, most = FUNCTIONS[name.text]
        with self._nested(name.at):
            arguments = [self._value()]
            while self._take(","):
                is_literal = len(arguments) >= _LITERAL_FROM.get(name.text, most)
                arguments.append(self._literal() if is_literal else self._value())
        self._expect(")")
        if not least <= len(arguments) <= most:
            raise ExpressionError("a function with more or fewer values than it takes", name.at)
        return Call(name.text, tuple(arguments))

    def _choice(self) -> Choose:
        cases = []
        while self._take("WHEN"):
            start = self._next.at
            condition = _condition_of(self._condition(), start)
            self._expect("THEN")
            cases.append((condition, self._value()))
        if not cases:
            raise ExpressionError("WHEN was expected", self._next.at)
        otherwise = self._value() if self._take("ELSE") else None
        self._expect("END")
        return Choose(tuple(cases), otherwise)

    def _literal(self) -> Literal:
        token = self._next
        self._at += token.kind is not Kind.END
        match token:
            case (Kind.TEXT, text, _):
                return Literal(text)
            case (Kind.NUMBER, text, _):
                return Literal(Decimal(text))
            case (Kind.MARK, "-", _):
                with self._nested(token.at):
                    inner = self._literal()
                if isinstance(inner.value, Decimal):
                    return Literal(-inner.value)
            case (Kind.WORD, ("TRUE" | "FALSE") as word, _):
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
    if isinstance(tree, Literal | Call | Operate | Choose):
        raise ExpressionError("a condition was expected, not a value", at)
    return tree


def _value_of(tree: Condition | Value, at: int) -> Value:
    if isinstance(tree, Name | Literal | Call | Operate | Choose):
        return tree
    raise ExpressionError("a value was expected, not a condition", at)
