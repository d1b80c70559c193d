"""Casts against the plain reference: the same value, or null and beyond, for any text under any type."""

from datetime import date, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kit.made_frames import TEXTS
from kit.plain_casts import BEYOND, plain_cast
from kit.typed_values import plain, same

from tidegate.columns.cast_nested import cast_text
from tidegate.columns.casts import Arrays, Cast, cast_of, exact_float
from tidegate.pgoutput.messages import Type

HSTORE, VECTOR, HSTORES = 70_000, 70_001, 70_002
TYPES = {
    HSTORE: Type(HSTORE, "public", "hstore"),
    VECTOR: Type(VECTOR, "extensions", "vector"),
    HSTORES: Type(HSTORES, "public", "_hstore"),
}
TYPMODS = [
    -1,
    *(
        (precision << 16 | scale & 0x7FF) + 4
        for precision, scale in ((9, 2), (38, 10), (40, 3), (3, -2), (2, 5), (76, 0), (80, 4))
    ),
]
NUMERIC, NUMERICS = 1700, 1231
SCALARS = (
    16,
    17,
    18,
    20,
    21,
    23,
    25,
    26,
    700,
    701,
    790,
    869,
    1042,
    1082,
    1083,
    1114,
    1184,
    1186,
    1266,
    1560,
    2950,
    3802,
)
NESTED = (1007, 1009, 1016, 1020, 1017, 1115, 1185, 1182, 1187, 2951, 1001, 600, 601, 602, 603, 604, 628, 718)
RANGES = (3904, 3906, 3908, 3910, 3912, 3926, 4451, 4532, 4533, 4535, 3905, 3913, 6150, HSTORE, VECTOR, HSTORES)
CASTS = [
    *(cast_of(oid, -1, TYPES, arrays) for oid in SCALARS + NESTED + RANGES for arrays in Arrays),
    *(cast_of(oid, typmod, {}) for oid in (NUMERIC, NUMERICS) for typmod in TYPMODS),
]


def check(texts: list[bytes | None], cast: Cast) -> None:
    column = pa.array([b"before", *texts], pa.large_binary())[1:]
    typed = cast_text(column, cast)
    typed.values.validate(full=True)
    assert cast.type == typed.values.type
    beyond = [False] * len(texts) if typed.beyond is None else typed.beyond.tolist()
    found = [BEYOND if out else value for out, value in zip(beyond, plain(typed.values), strict=True)]
    for text, value in zip(texts, found, strict=True):
        expected = plain_cast(text, cast)
        assert same(expected, value) or expected is value is BEYOND, (text, str(cast.type), expected, value)


OWN = [
    b'2026-11-18', b'0044-03-15 BC', b'5874897-12-31', b'4713-01-01 BC', b'-infinity', b'2026-02-29', b'2024-02-29',
    b'0000-01-01', b'24:00:00', b'23:59:59.999999', b'12:00:00+02', b'15:04:05.1', b'294276-12-31 23:59:59.999999',
    b'294247-01-10 04:00:54.775807', b'294247-01-10 04:00:54.775808', b'0001-01-01 00:00:00 BC',
    b'4714-11-24 00:00:00+00 BC', b'2026-11-18 15:04:05.678901+05:30', b'1890-01-01 00:00:00+00:19:32',
    b'2026-11-18 24:00:00', b'1 year 2 mons -3 days +04:05:06.7', b'-00:00:01', b'1 mon', b'2 days ',
    b'178956970 years 7 mons', b'178956971 years', b'2562047788:00:54.775807', b'2562047:47:16.854775',
    b'2562047:47:16.854776', b'-2147483648 days', b'1 fortnight', b'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
    b'a0eebc999c0b4ef8bb6d6bb9bd380a11', b'$1,234.50', b'99.99', b'-9999999.99',
    b'12345678901234567890123456789012345678', b'1e-45', b'5e-324', b'2.2250738585072014e-308', b'1e400', b'1e-400',
    b'3.4028235e+38', b'3.4028236e+38', b'16777217', b'9007199254740993', b'0.1',
    b'1.00000017881393421514957253748434595763683319091796875', b'8388609.5', b'179769313486231580793e289', b'-32769',
    b'4294967295', b'4294967296', b'-9223372036854775809', b'18446744073709551616', b'[1,10)', b'(,)', b'empty',
    b'[,5]', b'["2026-01-01 00:00:00","infinity")', b'[2026-01-01,2026-02-01)', b'[a,b)', b'[1,2', b'["1",2)',
    b'["",2)', b'{[1,3),[5,7)}', b'{[1,3),}', b'{[1.50,),(,-3]}', b'{"[1,3)",empty,NULL}', b'(1,2)', b'(1e5,NaN)',
    b'[(1,2),(3,4)]', b'(3,4),(1,2)', b'<(0,0),1>', b'{1,-2.5,3}', b'((0,0),(1,1),(1,0))', b'[(0,0),(1,1)]',
    b'(1,(2,3))', b'()', b'[]', b'"k"=>"v", "b\\"x"=>NULL', b'"a"=>"1","b"=>"2"', b'"a"=>1', b'"\xff"=>"1"',
    b'[1,2.5,-3e-05]', b'[1,]', b'[0:1][-1:0]={{1,2},{3,4}}', b'[1:2]={1,2}', b'[2:1]={}', b'{{1},{2,3}}',
    b'{{{{{{{1}}}}}}}', b'[0:1]={1,2,3}', b'{{},{1}}', b'{"2026-01-01 00:00:00",NULL}', b'{"(1,2)","(3,4)"}',
    b'{(1,1),(0,0);(2,2),(1,1)}', b'{"\\"a\\"=>\\"1\\"",NULL}', b'{1,{2}}', b'{null}',
    b'[2147483647:2147483648]={1,2}', b'[-2147483648:-2147483648]={7}', b'{NULL,NULL}', b'(1,2)\n', b'1\n',
    b'\xd9\xa3', b'{[1,3)}x', b'empty\n',
]  # fmt: skip


@pytest.mark.parametrize("cast", CASTS, ids=lambda cast: f"{cast.type}".replace(" ", ""))
def test_every_text_under_every_type(cast: Cast) -> None:
    check([None, *TEXTS, *OWN, None], cast)


def test_nothing_at_all() -> None:
    for cast in CASTS:
        assert len(cast_text(pa.array([], pa.large_binary()), cast).values) == 0


@pytest.mark.parametrize("cast", CASTS, ids=lambda cast: f"{cast.type}".replace(" ", ""))
def test_a_part_of_a_column_is_cast_as_it_is_alone(cast: Cast) -> None:
    """Its bits do not begin with a byte, and its texts not with the data."""
    column = pa.array([None, *TEXTS, *OWN, None, None], pa.large_binary())

    for start, length in ((1, 20), (3, 70), (9, 1), (len(column) - 2, 2)):
        part = column.slice(start, length)
        found, alone = cast_text(part, cast), cast_text(pa.array(part.to_pylist(), pa.large_binary()), cast)
        found.values.validate(full=True)
        # NaN is not equal to itself, and years beyond 9999 have no form in Python.
        assert found.values.equals(alone.values) or repr(found.values.to_pylist()) == repr(alone.values.to_pylist())
        assert (found.beyond is None) == (alone.beyond is None)
        if found.beyond is not None:
            assert found.beyond.tolist() == alone.beyond.tolist()


shapes = st.text(alphabet='{}[](),;:"\\=<>-+. 0123456789eNULaninfityBCymodsrxtf', max_size=40).map(str.encode)
any_text = st.sampled_from(TEXTS + OWN) | shapes | st.binary(max_size=30)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    text = bytearray(draw(st.sampled_from([text for text in OWN if text])))
    text[draw(st.integers(0, len(text) - 1))] = draw(st.sampled_from(b'{}[](),;:"\\=<>-+. 0123456789e'))
    return bytes(text[: draw(st.integers(0, len(text)))])


@settings(max_examples=600, deadline=None)
@given(st.lists(st.none() | any_text | damaged(), min_size=1, max_size=12), st.sampled_from(CASTS))
def test_any_text_under_any_type(texts: list[bytes | None], cast: Cast) -> None:
    check(texts, cast)


@settings(max_examples=500, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
@example(5e-324)
@example(2.2250738585072014e-308)
def test_doubles_come_back_bit_for_bit(number: float) -> None:
    mantissa, _, exponent = repr(number).partition("e")
    text = mantissa + (f"e{exponent}" if exponent else "")

    check([text.encode(), f"{number:.25e}".encode()], cast_of(701, -1, {}))


@settings(max_examples=500, deadline=None)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(1, 25))
def test_floats_are_rounded_once(number: float, digits: int) -> None:
    check([f"{number:.{digits}e}".encode(), f"{number:.9g}".encode()], cast_of(700, -1, {}))


@settings(max_examples=300, deadline=None)
@given(st.decimals(allow_nan=False, allow_infinity=False, places=4), st.sampled_from(TYPMODS))
def test_numerics_keep_every_digit(number: Decimal, typmod: int) -> None:
    check([f"{number:f}".encode()], cast_of(NUMERIC, typmod, {}))


@settings(max_examples=300, deadline=None)
@given(st.integers(-4713 * 366, 300_000 * 366), st.integers(0, 86_400 * 10**6 - 1))
def test_instants_of_every_year(day: int, microseconds: int) -> None:
    """Made by the calendar's own rule: 400 years have 146,097 days."""
    cycles, of_cycle = divmod(day, 146_097)
    moment = date(1970, 1, 1) + timedelta(days=of_cycle)
    year = moment.year + 400 * cycles
    seconds, fraction = divmod(microseconds, 10**6)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"
    text = f"{year if year > 0 else 1 - year:04}-{moment:%m-%d} {clock}" + ("" if year > 0 else " BC")
    typed = cast_text(pa.array([text.encode()], pa.large_binary()), cast_of(1114, -1, {}))

    expected = day * 86_400 * 10**6 + microseconds
    assert [expected if expected < 2**63 else None] == plain(typed.values)


@pytest.mark.parametrize("text", [b"", b"1e400", b"1e-400", b" 1", b"0x10", b"1_0", b"\xd9\xa3", b"nan", b"1e", b"1."])
def test_the_slow_way_takes_no_more_than_the_quick_one(text: bytes) -> None:
    assert exact_float(text, 64) is None
