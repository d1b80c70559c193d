"""YAML: what it may say, and what is refused before anything is built of it."""

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.config.document import MAX_BYTES, parse_bytes
from tidegate.errors import ConfigError, Problem

BOMB = b"a: &a [1,1,1,1,1,1,1,1,1,1]\n" + b"".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n".encode()
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)


def problems(data: bytes) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as caught:
        parse_bytes(data)
    return caught.value.problems


@pytest.mark.parametrize(
    "word", ["yes", "no", "on", "off", "Yes", "True", "TRUE", "08:00", "1:30", "010", "0x10", "0o7"]
)
def test_what_yaml_1_1_would_guess_stays_text(word: str) -> None:
    assert {"a": word} == parse_bytes(f"a: {word}".encode())


@pytest.mark.parametrize("end", ["]", "", "!tag x]"])
def test_a_file_of_too_many_values_is_not_read_to_its_end(end: str) -> None:
    """What stands behind the limit is not looked at, whatever it is."""
    found = problems(b"[" + b"a," * (MAX_BYTES // 2 - 10) + end.encode())
    assert [each.code for each in found] == ["CONFIG_TOO_LARGE"]


@pytest.mark.parametrize("word", ["1e9", "1_000", "+1", ".5", ".inf", ".nan", "2026-11-18", "1" * 5_000])
def test_a_number_in_an_unusual_form_stays_text(word: str) -> None:
    assert {"a": word} == parse_bytes(f"a: {word}".encode())


def test_plain_values_have_their_type_and_quoted_ones_are_text() -> None:
    data = b"a: 10\nb: '10'\nc: true\nd: 'true'\ne: -1.5\nf: null\ng:\nh: \"\"\n"

    assert parse_bytes(data) == {"a": 10, "b": "10", "c": True, "d": "true", "e": -1.5, "f": None, "g": None, "h": ""}


def test_line_ends_of_windows_and_a_byte_order_mark_change_nothing() -> None:
    assert parse_bytes(b"\xef\xbb\xbfa: 1\r\nb:\r\n  - 2\r\n") == {"a": 1, "b": [2]}


def test_aliases_that_unfold_to_little_are_taken() -> None:
    assert parse_bytes(b"a: &a {x: 1}\nb: *a\n") == {"a": {"x": 1}, "b": {"x": 1}}


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"a: 1\nb: 2\na: 3", "CONFIG_DUPLICATE_KEY"),
        (b"a: !!python/object/apply:os.system [id]", "CONFIG_TAG"),
        (b"a: !secret x", "CONFIG_TAG"),
        (b"a: !!binary aGk=", "CONFIG_TAG"),
        (b"? [a]\n: 1", "CONFIG_KEY"),
        (b"a: \xff\xfe", "CONFIG_ENCODING"),
        (b"a: b: c", "CONFIG_SYNTAX"),
        (b"a: *nowhere", "CONFIG_SYNTAX"),
        (b"a: 1\n---\nb: 2", "CONFIG_SYNTAX"),
        (b"a: \x00", "CONFIG_SYNTAX"),
        (b"a: \x1b[31m", "CONFIG_SYNTAX"),
        (b"[" * 100_000, "CONFIG_TOO_DEEP"),
        (b"&a [*a]", "CONFIG_ALIAS_BOMB"),
        (BOMB, "CONFIG_ALIAS_BOMB"),
        (b"#" * (MAX_BYTES + 1), "CONFIG_TOO_LARGE"),
    ],
)
def test_a_document_out_of_line_is_refused(data: bytes, code: str) -> None:
    assert [code] == [problem.code for problem in problems(data)]


def test_every_duplicate_key_is_told_with_its_place() -> None:
    found = problems(b"a: 1\na: 2\nb:\n  - {c: 1, c: 2}\n")

    assert [problem.path for problem in found] == ["a", "b[0].c"]


def test_a_syntax_error_does_not_quote_the_file() -> None:
    (problem,) = problems(b"password: *canary-7f3a\n")

    assert "canary" not in str(problem)


def test_an_alias_bomb_is_refused_before_it_unfolds() -> None:
    begin = time.process_time()
    problems(BOMB)

    assert time.process_time() - begin < 5


@given(st.binary(max_size=200))
def test_any_bytes_give_a_value_or_a_configuration_error(data: bytes) -> None:
    with contextlib.suppress(ConfigError):
        parse_bytes(data)
