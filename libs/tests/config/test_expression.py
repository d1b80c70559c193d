"""Conditions of filters: what is understood, and what is refused without repeating a word of it."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    columns_of,
)
from tidegate.config.expression_text import MAX_CHARACTERS, parse, parse_value
from tidegate.config.expression_tokens import ExpressionError

A, B, C = (Compare("=", Name(name), Literal(Decimal(1))) for name in "abc")

WORDS = ("a", "1", "'x'", "(", ")", ",", "=", "-", "+", "*", "||", "NOT", "AND", "OR", "IN", "IS", "NULL", "LIKE",
         "lower", "coalesce", "CASE", "WHEN", "THEN", "ELSE", "END", "BETWEEN")  # fmt: skip

UNDERSTOOD: list[tuple[str, Condition]] = [
    ("a = 1", A),
    ("(A = 1)", A),
    ('"A" = 1', Compare("=", Name("A"), Literal(Decimal(1)))),
    ('"odd ""name""" = 1', Compare("=", Name('odd "name"'), Literal(Decimal(1)))),
    ("a != 'it''s'", Compare("<>", Name("a"), Literal("it's"))),
    ("-1.50 < a", Compare("<", Literal(Decimal("-1.50")), Name("a"))),
    ("a = TRUE", Compare("=", Name("a"), Literal(True))),
    ("a=1 OR b=1 AND c=1", Junction(False, (A, Junction(True, (B, C))))),
    ("(a=1 or b=1) and c=1", Junction(True, (Junction(False, (A, B)), C))),
    ("NOT a=1 AND b=1", Junction(True, (Not(A), B))),
    ("not (a=1)", Not(A)),
    ("a", Truth(Name("a"))),
    ("not a", Not(Truth(Name("a")))),
    ("a IS NULL", IsNull(Name("a"))),
    ("a is not null", Not(IsNull(Name("a")))),
    ("a LIKE 'x%'", Like(Name("a"), "x%")),
    ("lower(trim(a)) NOT LIKE 'x%'", Not(Like(Call("lower", (Call("trim", (Name("a"),)),)), "x%"))),
    ("a IN (1)", Junction(False, (A,))),
    (
        "a NOT BETWEEN 1 AND b",
        Not(Junction(True, (Compare(">=", Name("a"), Literal(Decimal(1))), Compare("<=", Name("a"), Name("b"))))),
    ),
]


@pytest.mark.parametrize(("text", "tree"), UNDERSTOOD)
def test_a_condition_is_understood(text: str, tree: Condition) -> None:
    assert parse(text) == tree
    assert parse(f"  ({text} )") == tree


REFUSED = [
    "", " ", "1", "'x'", "a =", "= a", "a = NULL", "a == 1", "a = 1;", "a = 1 -- x", "a = 1 b", "(a", "a)", "a = 'x",
    "a IN ()", "a IN (b)", "a IN (1", "a NOT = 1", "a IS 1", "a LIKE b", "f(a) = 1", "lower() = 1", "lower(a, b) = 1",
    "a / 1 = 2", "a + = 2", "a || = 'x'", "a.b = 1", "a = 1e5", "a = 0x10",
    "(a = 1) = b", "a = (b = 1)", "NOT", "a = 1 AND", "a BETWEEN 1",
    "a = 1 OR OR b = 1", '"" = 1', "a = $1", "a = 1::int", "SELECT 1", "reflect(a) = 'x'", "(" * 60 + "a" + ")" * 60,
    "a = - -1 -- x", "a IN (" + "- " * 60 + "1)", "a = " + "- " * 60 + "1", "a = 1" + " + 1" * 300, "case = 1",
    "lower(a) OR b = 1", "round(a, b) = 1", "replace(a, 'x') = 'y'", "coalesce(a) = 1", "substr(a) = 'x'",
    "NOT " * 60 + "a", "a = 1 OR " * 2000 + "a", "\x00", "ä = 1",
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_in_the_grammar_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse(text)


def number(value: int) -> Literal:
    return Literal(Decimal(value))


VALUES: list[tuple[str, Value]] = [
    ("a", Name("a")),
    ("'x'", Literal("x")),
    ("-1", number(-1)),
    ("-a", Operate("-", number(0), Name("a"))),
    ("a-1", Operate("-", Name("a"), number(1))),
    ("a + b * c", Operate("+", Name("a"), Operate("*", Name("b"), Name("c")))),
    ("(a + b) * c", Operate("*", Operate("+", Name("a"), Name("b")), Name("c"))),
    ("a - b - c", Operate("-", Operate("-", Name("a"), Name("b")), Name("c"))),
    ("a || b + 1", Operate("||", Name("a"), Operate("+", Name("b"), number(1)))),
    ("coalesce(a, b, 'x')", Call("coalesce", (Name("a"), Name("b"), Literal("x")))),
    ("round(a + 1, 2)", Call("round", (Operate("+", Name("a"), number(1)), number(2)))),
    (
        "CASE WHEN a = 1 THEN 'one' WHEN b THEN c ELSE 'more' END",
        Choose(((A, Literal("one")), (Truth(Name("b")), Name("c"))), Literal("more")),
    ),
    ("case when a = 1 then b end", Choose(((A, Name("b")),), None)),
]


@pytest.mark.parametrize(("text", "tree"), VALUES)
def test_a_value_is_understood(text: str, tree: Value) -> None:
    assert parse_value(text) == tree
    assert parse_value(f"  ({text} )") == tree


@pytest.mark.parametrize(
    "text",
    ["", "a = 1", "a IS NULL", "CASE a WHEN 1 THEN 2 END", "CASE ELSE 1 END", "CASE WHEN a THEN 1", "a b", "NULL"],
)
def test_what_is_no_value_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse_value(text)


@given(st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join))
def test_any_words_are_an_expression_or_refused(text: str) -> None:
    for read in (parse, parse_value):
        try:
            tree = read(text)
        except ExpressionError:
            continue
        assert read(f"({text})") == tree
        columns_of(tree)


@given(st.text(st.sampled_from("ab1'\"(),<>=-+*|. \nNOTANDORINLIKEISNULL"), max_size=40))
def test_any_text_is_a_condition_or_refused(text: str) -> None:
    try:
        tree = parse(text)
    except ExpressionError:
        return
    assert parse(f"({text})") == tree


def test_a_refusal_repeats_nothing() -> None:
    with pytest.raises(ExpressionError) as caught:
        parse("name = 'canary-7f3a' canary")

    assert "canary" not in str(caught.value)
    assert "at character 22" in str(caught.value)


def test_too_long_is_refused_before_it_is_read() -> None:
    with pytest.raises(ExpressionError):
        parse("a" * (MAX_CHARACTERS + 1))


def test_all_columns_are_named() -> None:
    tree = parse("a = lower(b) AND NOT (c IS NULL OR d LIKE 'x' OR e) AND 1 < f")

    assert columns_of(tree) == set("abcdef")
