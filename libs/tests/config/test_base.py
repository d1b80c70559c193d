"""Values with a unit."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from tidegate.config.base import (
    Address,
    format_duration,
    format_size,
    parse_address,
    parse_duration,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0s", timedelta(0)), ("3ms", timedelta(milliseconds=3)), ("5m", timedelta(minutes=5)), ("7d", timedelta(days=7))],
)
def test_a_duration_is_a_number_and_a_unit(text: str, expected: timedelta) -> None:
    assert expected == parse_duration(text)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "s",
        "30",
        "30 s",
        " 30s",
        "30s\n",
        "-1s",
        "+1s",
        "1_0s",
        "1.5s",
        "1e3s",
        "٣s",
        "１s",
        "30S",
        "9999999999d",
        30,
        None,
        True,
        "9" * 10000 + "s",
    ],
)
def test_a_duration_in_any_other_form_is_refused(value: object) -> None:
    with pytest.raises(PydanticCustomError, match="duration"):
        parse_duration(value)


@given(st.integers(min_value=0, max_value=10**9).map(lambda ms: timedelta(milliseconds=ms)))
def test_a_duration_survives_being_written_down(value: timedelta) -> None:
    assert value == parse_duration(format_duration(value))


@pytest.mark.parametrize(("text", "expected"), [("0B", 0), ("512B", 512), ("256KiB", 262_144), ("16MiB", 2**24)])
def test_a_size_is_a_number_and_a_unit(text: str, expected: int) -> None:
    assert expected == parse_size(text)


@pytest.mark.parametrize(
    "value", ["", "256", "256KB", "256k", "1e3B", "-1B", "1 B", "1_0B", "٣B", "1B\n", "9999999999999B", 256, None, True]
)
def test_a_size_in_any_other_form_is_refused(value: object) -> None:
    with pytest.raises(PydanticCustomError, match="size"):
        parse_size(value)


@given(st.integers(min_value=0, max_value=10**11))
def test_a_size_survives_being_written_down(value: int) -> None:
    assert value == parse_size(format_size(value))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:8080", Address("127.0.0.1", 8080)),
        ("db.internal:0", Address("db.internal", 0)),
        ("[::1]:65535", Address("::1", 65_535)),
    ],
)
def test_an_address_is_host_and_port(text: str, expected: Address) -> None:
    address = parse_address(text)

    assert expected == address
    assert text == str(address)


@pytest.mark.parametrize(
    "value",
    ["", ":80", "host", "host:", "host:65536", "host:8_0", "host:８０", "::1:80", "u@h:80", "http://h:80", "h:80\r\n"],
)
def test_an_address_in_any_other_form_is_refused(value: str) -> None:
    with pytest.raises(PydanticCustomError, match="address"):
        parse_address(value)
