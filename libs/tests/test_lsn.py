"""LSN text: as PostgreSQL writes it, and nothing that merely looks like it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.lsn import MAX_LSN, ZERO, format_lsn, parse_lsn


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0/0", ZERO),
        ("FFFFFFFF/FFFFFFFF", MAX_LSN),
        ("0/16B3748", 0x16B3748),
        ("a/b", 0xA0000000B),
        ("0001/00000001", 2**32 + 1),
    ],
)
def test_two_hexadecimal_halves_are_one_number(text: str, expected: int) -> None:
    assert parse_lsn(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "0/",
        "/0",
        "0",
        "0/100000000",
        "G/0",
        " 0/1",
        "0/1 ",
        "0/1\n",
        "-1/0",
        "+1/0",
        "0x0/1",
        "1_0/0",
        "１/２",
        "٣/0",
        "0/0/0",
        "0\\0",
        "0/1\x00",
        "0" * 10000 + "/0",
    ],
)
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="two hexadecimal numbers"):
        parse_lsn(text)


@given(st.integers(min_value=0, max_value=MAX_LSN))
def test_an_lsn_survives_being_written_down(lsn: int) -> None:
    assert parse_lsn(format_lsn(lsn)) == lsn


@pytest.mark.parametrize(("lsn", "expected"), [(0, "0/0"), (2**32, "1/0"), (0xA_016B3748, "A/16B3748")])
def test_an_lsn_is_written_as_postgresql_writes_it(lsn: int, expected: str) -> None:
    assert format_lsn(lsn) == expected
