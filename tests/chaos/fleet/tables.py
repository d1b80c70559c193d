"""What the load writes into: a table for each thing that may go wrong, and what its columns are in an event.

Invariant: `as_json` is the reference page of the event (docs/reference/event.md) once more, for these types alone; it
knows nothing of the product's own encoders.
"""

import base64
import json
import re
from typing import Any, NamedTuple

ACCOUNTS = 20
OPENING_BALANCE = 1_000

SCHEMA = f"""
CREATE TABLE accounts (id integer PRIMARY KEY, balance bigint NOT NULL, note text);
INSERT INTO accounts SELECT n, {OPENING_BALANCE}, NULL FROM generate_series(1, {ACCOUNTS}) n;
CREATE TABLE orders (id bigint PRIMARY KEY, token text NOT NULL, note text, filler text);
ALTER TABLE orders ALTER filler SET STORAGE EXTERNAL;
CREATE TABLE hostile (
    id bigint PRIMARY KEY, v_text text, v_num numeric, v_float double precision, v_time timestamptz, v_date date,
    v_json jsonb, v_bytes bytea, v_ints integer[], v_bool boolean, v_interval interval
);
CREATE TABLE "Odd Näme.x" ("a ""key" text, "sel ect" integer, v text, PRIMARY KEY ("a ""key", "sel ect"));
CREATE TABLE keyless (token text, n integer);
ALTER TABLE keyless REPLICA IDENTITY FULL;
CREATE TABLE shaped (id bigint PRIMARY KEY, token text);
CREATE TABLE fleeting (id bigint PRIMARY KEY, token text);
CREATE TABLE parted (id bigint, region text, token text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE parted_north PARTITION OF parted FOR VALUES IN ('n');
CREATE TABLE parted_south PARTITION OF parted FOR VALUES IN ('s');
CREATE TABLE sentinel (id bigint PRIMARY KEY);
"""

KEYS: dict[str, tuple[str, ...]] = {
    "accounts": ("id",),
    "orders": ("id",),
    "hostile": ("id",),
    "Odd Näme.x": ('a "key', "sel ect"),
    "keyless": (),
    "shaped": ("id",),
    "fleeting": ("id",),
    "parted": ("id", "region"),
    "sentinel": ("id",),
}
"""The columns that say which row an event is about; none: the whole row does."""

ROOTS = {"parted_north": "parted", "parted_south": "parted"}
"""A partition's changes are published as its root's; only other decoders see where they are."""

_TYPES = {
    "id": "number", "balance": "number", "n": "number", "sel ect": "number", "v_num": "text", "v_float": "float",
    "v_time": "timestamptz", "v_json": "json", "v_bytes": "bytea", "v_ints": "ints", "v_bool": "bool",
}  # fmt: skip
_ADDED_NUMBER = "added_n"

TEXTS = (
    "", "plain", "NULL", "null", "'quoted'", '"quoted"', "back\\slash", "tab\tline\nreturn\r", "\u0001\u001f\u007f",
    "é ü ß 漢字", "🌊👩‍👩‍👧", "\u202eright to left", "\\u0000", "{a,b}", "\\N", "\\.",
    '{"json": "look-alike"}', "x" * 300, "\ufeffmark", "\u2028\u2029", "%s %(name)s $1 :name ?",
    "-- ; DROP TABLE orders",
)  # fmt: skip
NUMBERS = (
    "0", "-0.00", "1.50", "NaN", "Infinity", "-Infinity", "1e-30", "12345678901234567890.123456789", "9" * 200,
)  # fmt: skip
FLOATS = ("0", "-0", "1.5", "0.1", "1e300", "-1e-300", "5e-324", "NaN", "Infinity", "-Infinity", "9007199254740993")
TIMES = (
    "2026-02-28 12:34:56.789+00", "infinity", "-infinity", "0044-03-15 12:00:00+00 BC", "12026-11-18 00:00:00+00",
    "1969-12-31 23:59:59.999999+00", "2026-03-29 01:30:00+02",
)  # fmt: skip
DATES = ("2026-11-18", "infinity", "-infinity", "0044-03-15 BC", "5874897-12-31", "0001-01-01")
DOCUMENTS = (
    "null", "1.0", '"text"', '{"a": [1, 2.50, null], "b": {"c": "é🌊"}}', "[]", '{"": ""}', '{"n": 1e400}', "[[[]]]",
)  # fmt: skip
BYTES = ("\\x", "\\x00", "\\xdeadbeef", "\\x" + "00ff" * 200)
INTS = ("{}", "{1,NULL,-3}", "{{1,2},{3,4}}")
INTERVALS = ("1 year 2 mons -3 days +04:05:06.7", "0", "-1 days", "178000000 years")


class Number(NamedTuple):
    """A JSON number, by its digits: a float would lose some, and a string is something else."""

    digits: str


def parse(text: bytes | str) -> Any:
    return json.loads(text, parse_int=Number, parse_float=Number, parse_constant=_no_constant)


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


def as_json(column: str, text: str | None) -> Any:
    """What an event must hold where PostgreSQL shows this text."""
    if text is None:
        return None
    kind = _TYPES.get(column, "number" if column.startswith(_ADDED_NUMBER) else "text")
    match kind:
        case "number":
            return Number(text)
        case "float":
            return text if text[-1] in "Ny" else Number(text)
        case "bool":
            return text in ("t", "true")
        case "json":
            return parse(text)
        case "bytea":
            return base64.b64encode(bytes.fromhex(text[2:])).decode()
        case "ints":
            return parse(text.translate(str.maketrans("{}", "[]")).replace("NULL", "null"))
        case "timestamptz":
            return _instant(text)
    return text


def _instant(text: str) -> str:
    plain = re.fullmatch(r"(\d{4}-\d\d-\d\d) ([\d:.]+)\+00", text)
    return f"{plain[1]}T{plain[2]}Z" if plain else text
