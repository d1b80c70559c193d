"""Which tables a pattern means."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from tidegate.config.sinks import Route
from tidegate.config.tables import TablePattern

NAMES = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("pattern", "table", "expected"),
    [
        ("public.orders", ("public", "orders"), True),
        ("public.orders", ("public", "Orders"), False),
        ("public.orders", ("public2", "orders"), False),
        ("public.*", ("public", ""), True),
        ("*.*", ("a", "b.c"), True),
        ("public.o*s", ("public", "orders"), True),
        ("public.o*s", ("public", "order"), False),
        ("public.ab*ba", ("public", "aba"), False),
        ("public.*a*b*", ("public", "xxaxxbxx"), True),
        ("public.*a*b*", ("public", "ba"), False),
        ('"Odd Schema"."odd.table"', ("Odd Schema", "odd.table"), True),
        ('public."a""b"', ("public", 'a"b'), True),
        ('public."*"', ("public", "orders"), False),
        ('public."*"', ("public", "*"), True),
    ],
)
def test_a_pattern_takes_its_tables(pattern: str, table: tuple[str, str], expected: bool) -> None:
    assert expected is TablePattern.parse(pattern).matches(*table)


@given(NAMES, NAMES)
def test_a_quoted_pattern_is_one_table_and_survives_being_written_down(schema: str, table: str) -> None:
    text = ".".join('"' + name.replace('"', '""') + '"' for name in (schema, table))

    pattern = TablePattern.parse(text)

    assert pattern.matches(schema, table)
    assert pattern.is_exact
    assert text == str(pattern)


@pytest.mark.parametrize("text", ["", "orders", "a.b.c", ".b", "a.", 'a."b', 'a.""', "a b.c", 1, None, "a." + "b" * 64])
def test_what_is_no_table_is_refused(text: object) -> None:
    with pytest.raises(PydanticCustomError):
        TablePattern.parse(text)


def test_many_wildcards_take_no_time() -> None:
    pattern = TablePattern.parse("public." + "*a" * 31)
    begin = time.process_time()

    assert not pattern.matches("public", "a" * 30 + "b" * 100_000)
    assert time.process_time() - begin < 1


def test_a_route_takes_its_operations_only() -> None:
    route = Route.model_validate_json('{"tables": ["public.*"], "operations": ["INSERT"]}')

    assert route.matches("public", "orders", "INSERT")
    assert not route.matches("public", "orders", "DELETE")
    assert not route.matches("audit", "orders", "INSERT")
