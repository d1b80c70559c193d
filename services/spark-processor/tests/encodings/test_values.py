"""Each type's text to its JSON, as docs/reference/event.md lists them."""

import json
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.errors import RecordError
from tidegate.pgoutput.messages import Column
from tidegate_processor.encodings.values import column_key, column_value

INT4, INT8, FLOAT4, FLOAT8, NUMERIC, BOOL, BYTEA = 23, 20, 700, 701, 1700, 16, 17
JSON, JSONB, BPCHAR, DATE, TIME, TIMESTAMP, TIMESTAMPTZ = 114, 3802, 1042, 1082, 1083, 1114, 1184
INT4S, FLOAT8S, NUMERICS, TEXTS, BOOLS, BYTEAS, JSONBS, BOXES = 1007, 1022, 1231, 1009, 1000, 1001, 3807, 1020
TIMESTAMPTZS, BPCHARS = 1185, 1014
ENUM = 16500


def _value(type_oid: int, text: str, typmod: int = -1) -> str:
    return column_value(Column(0, "c", type_oid, typmod))(text.encode()).decode()


def _key(type_oid: int, text: str, typmod: int = -1) -> str:
    return column_key(Column(1, "c", type_oid, typmod))(text.encode()).decode()


@pytest.mark.parametrize(
    ("type_oid", "text", "expected"),
    [
        (INT4, "-2147483648", "-2147483648"),
        (INT8, "9223372036854775807", "9223372036854775807"),
        (FLOAT8, "0.30000000000000004", "0.30000000000000004"),
        (FLOAT8, "1e+308", "1e+308"),
        (FLOAT8, "-0", "-0"),
        (FLOAT4, "NaN", '"NaN"'),
        (FLOAT8, "-Infinity", '"-Infinity"'),
        (NUMERIC, "1.00", '"1.00"'),
        (NUMERIC, "NaN", '"NaN"'),
        (BOOL, "t", "true"),
        (BOOL, "f", "false"),
        (BYTEA, "\\x", '""'),
        (BYTEA, "\\x00ff10", '"AP8Q"'),
        (JSON, '{ "b":1,  "a":1e400, "a":[] }', '{ "b":1,  "a":1e400, "a":[] }'),
        (JSONB, "null", "null"),
        (BPCHAR, "ab  ", '"ab  "'),
        (DATE, "2026-11-18", '"2026-11-18"'),
        (DATE, "0044-03-15 BC", '"0044-03-15 BC"'),
        (DATE, "infinity", '"infinity"'),
        (TIME, "24:00:00", '"24:00:00"'),
        (TIMESTAMP, "2026-11-18 15:04:05.678901", '"2026-11-18T15:04:05.678901"'),
        (TIMESTAMP, "0044-03-15 00:00:00 BC", '"0044-03-15 00:00:00 BC"'),
        (TIMESTAMP, "10000-01-01 00:00:00", '"10000-01-01 00:00:00"'),
        (TIMESTAMP, "-infinity", '"-infinity"'),
        (TIMESTAMPTZ, "2026-11-18 15:04:05+00", '"2026-11-18T15:04:05Z"'),
        (TIMESTAMPTZ, "2026-11-18 15:04:05+01", '"2026-11-18 15:04:05+01"'),
        (TIMESTAMPTZ, "0044-03-15 00:00:00+00 BC", '"0044-03-15 00:00:00+00 BC"'),
        (TIMESTAMPTZ, "infinity", '"infinity"'),
        (ENUM, 'sm"all\n\u0001😀', '"sm\\"all\\n\\u0001😀"'),
        (INT4S, "{}", "[]"),
        (INT4S, "{1,NULL,-3}", "[1,null,-3]"),
        (INT4S, "{{1,2},{3,4}}", "[[1,2],[3,4]]"),
        (INT4S, "[0:1]={1,2}", '"[0:1]={1,2}"'),
        (FLOAT8S, "{1.5,NaN}", '[1.5,"NaN"]'),
        (NUMERICS, "{1.50}", '["1.50"]'),
        (TEXTS, '{"NULL",NULL,"a,b","{}","","q\\"s\\\\",é}', '["NULL",null,"a,b","{}","","q\\"s\\\\","é"]'),
        (BOOLS, "{t,f}", "[true,false]"),
        (BYTEAS, '{"\\\\x00ff"}', '["AP8="]'),
        (JSONBS, '{"{\\"a\\": [1, \\"}\\"]}",null}', '[{"a": [1, "}"]},null]'),
        (BOXES, "{(1,1),(0,0);(2,2),(1,1)}", '["(1,1),(0,0)","(2,2),(1,1)"]'),
        (TIMESTAMPTZS, '{"2026-11-18 15:04:05+00"}', '["2026-11-18T15:04:05Z"]'),
    ],
)
def test_a_value_in_json(type_oid: int, text: str, expected: str) -> None:
    assert expected == _value(type_oid, text)


@pytest.mark.parametrize(
    ("type_oid", "texts"),
    [
        (FLOAT8, ["0", "-0"]),
        (NUMERIC, ["1", "1.0", "1.000"]),
        (NUMERIC, ["0", "0.0"]),
        (NUMERIC, ["-10.10", "-10.1"]),
        (BPCHAR, ["a", "a  "]),
        (NUMERICS, ["{1.0,2}", "{1,2.00}"]),
        (FLOAT8S, ["{0}", "{-0}"]),
        (BPCHARS, ['{a,"b "}', "{a,b}"]),
    ],
)
def test_keys_with_equal_values_are_equal_bytes(type_oid: int, texts: list[str]) -> None:
    assert len({_key(type_oid, text) for text in texts}) == 1


@pytest.mark.parametrize(
    ("type_oid", "texts"),
    [(NUMERIC, ["1", "10", "100", "0.1", "0.01", "0", "-1", "NaN", "Infinity"]), (FLOAT8, ["0", "1", "-1", "1e-300"])],
)
def test_keys_with_different_values_differ(type_oid: int, texts: list[str]) -> None:
    assert len(texts) == len({_key(type_oid, text) for text in texts})


def test_a_bpchar_of_a_length_keeps_its_padding() -> None:
    """The server pads every value of the column alike, so what it sent is canonical already."""
    assert _key(BPCHAR, "a  ", typmod=7) == '"a  "'


def test_bytea_in_escape_format_is_refused() -> None:
    with pytest.raises(RecordError) as refused:
        _value(BYTEA, "\\000secret")

    assert refused.value.code == "VALUE_BYTEA_FORMAT"
    assert "secret" not in str(refused.value)


def _array_text(items: object) -> str:
    """As array_out writes, every element quoted."""
    if items is None:
        return "NULL"
    if isinstance(items, list):
        return "{" + ",".join(map(_array_text, items)) + "}"
    return '"' + str(items).replace("\\", "\\\\").replace('"', '\\"') + '"'


words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@given(st.lists(words | st.none(), max_size=5) | st.lists(st.lists(words, min_size=1, max_size=3), max_size=3))
def test_an_array_of_text_survives(items: list[object]) -> None:
    assert items == json.loads(_value(TEXTS, _array_text(items)))


@example('},"a",{', TEXTS)  # became `],"a",[`: it closed a dimension that nothing had opened
@given(st.text(alphabet='{}",\\1a []=N', max_size=30), st.sampled_from([INT4S, TEXTS, BOXES, FLOAT8S]))
def test_whatever_stands_in_an_array_the_result_is_json(text: str, type_oid: int) -> None:
    """And when it is not an array's text, it stays that text."""
    value = json.loads(_value(type_oid, text))

    assert isinstance(value, list) or text == value


@given(words)
def test_any_text_survives(text: str) -> None:
    assert text == json.loads(_value(ENUM, text))


@given(st.floats())
def test_a_float_is_the_number_postgres_wrote(number: float) -> None:
    text = {math.inf: "Infinity", -math.inf: "-Infinity"}.get(number, "NaN" if math.isnan(number) else repr(number))

    assert text == (json.loads(_value(FLOAT8, text), parse_float=str, parse_int=str))
