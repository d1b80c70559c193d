"""The hostile values of every built-in type, as expressions; and tables that hold them under every replica identity.

A type is in the matrix from the major on that has it. Where a type has fewer values than others, the rest are NULL.
"""

from collections.abc import Iterator, Mapping

IDENTITIES = ("default", "full", "index", "nothing")

_SETUP = """
CREATE EXTENSION hstore;
CREATE TYPE mood AS ENUM ('sad', 'fine', 'it''s "so"');
CREATE TYPE pair AS (a int, b text);
CREATE TYPE floats AS RANGE (subtype = float8);
CREATE DOMAIN posint AS int CHECK (VALUE > 0);
CREATE DOMAIN smallposint AS posint CHECK (VALUE < 1000);
CREATE DOMAIN span AS interval;
CREATE DOMAIN price AS numeric(10,2);
"""

_VALUES: Mapping[str, tuple[str, ...]] = {
    "bool": ("true", "false"),
    "int2": ("-32768", "32767", "0"),
    "int4": ("-2147483648", "2147483647", "0"),
    "int8": ("-9223372036854775808", "9223372036854775807", "0"),
    "oid": ("0", "4294967295"),
    "float4": ("'NaN'", "'Infinity'", "'-Infinity'", "'-0'", "3.4028235e38", "1e-45", "0.1", "16777217"),
    "float8": ("'NaN'", "'Infinity'", "'-Infinity'", "'-0'", "1.7976931348623157e308", "5e-324", "0.1::float8+0.2"),
    "numeric": (
        "'NaN'", "'Infinity'", "'-Infinity'", "1e1000", "-0.000000000000000000000000000000000000000000001", "1.50",
    ),
    "numeric(10,2)": ("'NaN'", "99999999.99", "-0.01", "0"),
    "numeric(38,10)": ("9999999999999999999999999999.9999999999", "-1"),
    "numeric(76,20)": ("-9999999999999999999999999999999999999999999999999999999.99999999999999999999", "1e-20"),
    "money": ("'-92233720368547758.08'", "'1234.5'"),
    "text": ("''", "'say \"hi\" 😀\\'", "E'\\u0001\\n\\t'", "'é'", "repeat('ab', 40)"),
    "varchar(10)": ("''", "'Grüße'"),
    "char(5)": ("'ab'", "''"),
    "bpchar": ("'ab  '",),
    '"char"': ("'x'", "''"),
    "name": ("'a.b\"c'",),
    "bytea": ("''", "'\\x00ff10'", "decode(repeat('00ff', 20), 'hex')"),
    "json": ("'{ \"b\": 1, \"a\": 1e400, \"b\": 2 }'", "'null'", "'\"\\u00e9\"'"),
    "jsonb": ("'{\"a\": [null, 1.50]}'", "'null'", "'[]'"),
    "date": ("'infinity'", "'-infinity'", "'4713-01-01 BC'", "'5874897-12-31'", "'0001-12-31 BC'", "'2024-02-29'"),
    "time": ("'24:00'", "'00:00'", "'23:59:59.999999'"),
    "timetz": ("'24:00+15:59:59'", "'00:00-15:59:59'", "'12:00+05:30'"),
    "timestamp": (
        "'infinity'", "'-infinity'", "'4713-01-01 00:00 BC'", "'294276-12-31 23:59:59.999999'", "'12026-01-01'",
    ),
    "timestamptz": (
        "'infinity'", "'-infinity'", "'0044-03-15 12:00+00 BC'", "'294276-12-31 23:59:59.999999+00'",
        "'2026-11-18 15:04:05.678901+05:30'",
    ),
    "interval": (
        "'1 year 2 mons -3 days 04:05:06.7'", "'178000000 years'", "'-00:00:00.000001'", "'0'", "'2562047 hours'",
        "'3000000 hours'",
    ),
    "uuid": ("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'",),
    "inet": ("'192.168.0.1/24'", "'::1'"),
    "cidr": ("'2001:db8::/32'",),
    "macaddr": ("'08-00-2b-01-02-03'",),
    "macaddr8": ("'08:00:2b:01:02:03:04:05'",),
    "bit(4)": ("B'1010'",),
    "varbit": ("B''", "B'101'"),
    "point": ("'(1.5,-2)'", "'(NaN,Infinity)'"),
    "line": ("'{1,2,3}'",),
    "lseg": ("'[(0,0),(1,1e300)]'",),
    "box": ("'((1,1),(0,0))'",),
    "path": ("'((0,0),(1,1))'", "'[(0,0),(1,1)]'"),
    "polygon": ("'((0,0),(1,0),(1,1))'",),
    "circle": ("'<(0,0),1>'",),
    "pg_lsn": ("'FFFFFFFF/FFFFFFFF'", "'0/0'"),
    "tsvector": ("'the:1 tide:2'",),
    "tsquery": ("'a & !b'",),
    "xml": ("'<a>é</a>'",),
    "xid8": ("'18446744073709551615'",),
    "int4range": ("'[1,5]'", "'empty'", "'(,)'"),
    "int8range": ("'[1,)'",),
    "numrange": ("'[1.0,2)'", "'(,NaN]'"),
    "tsrange": ("'[2026-01-01,infinity)'", "'[2026-01-01 12:00,2026-02-01)'"),
    "tstzrange": ("'[2026-01-01 12:00+05,)'",),
    "daterange": ("'[2026-01-01,2026-01-31]'", "'(,infinity)'"),
    "int4multirange": ("'{[1,3),[5,7)}'", "'{}'"),
    "datemultirange": ("'{[2026-01-01,2026-01-31]}'",),
    "floats": ("'[0.5,1)'",),
    "mood": ("'fine'", "'it''s \"so\"'"),
    "pair": ("ROW(1, 'a \"b')", "ROW(NULL, '')"),
    "posint": ("7",),
    "smallposint": ("999",),
    "span": ("'1 day'",),
    "price": ("1.5",),
    "hstore": ("'k=>v, \"b\\\"x\"=>NULL'", "''"),
    "bool[]": ("'{t,f,NULL}'",),
    "int4[]": ("'{1,NULL,-3}'", "'{{1,2},{3,4}}'", "'{}'", "'[0:1][-1:0]={{1,2},{3,4}}'"),
    "float8[]": ("'{1.5,NaN,Infinity}'",),
    "numeric(10,2)[]": ("'{1.50,NULL}'", "'{NaN}'"),
    "text[]": ("ARRAY['a,b', 'NULL', NULL, '', 'q\"s', '\\', '{}', 'é']",),
    "bytea[]": ("ARRAY['\\x00ff'::bytea]",),
    "jsonb[]": ("ARRAY['{\"a\":1}', 'null']::jsonb[]",),
    "timestamptz[]": ("ARRAY['2026-11-18 15:04:05+00', 'infinity']::timestamptz[]",),
    "box[]": ("ARRAY['((1,1),(0,0))','((2,2),(1,1))']::box[]",),
    "int4range[]": ("ARRAY['[1,3)', 'empty']::int4range[]",),
    "mood[]": ("'{sad,fine}'",),
    "pair[]": ("ARRAY[ROW(1,'a')::pair, NULL]",),
    "hstore[]": ("ARRAY['a=>1'::hstore]",),
    "posint[]": ("'{1,2}'",),
}  # fmt: skip
_SINCE: Mapping[int, Mapping[str, tuple[str, ...]]] = {
    15: {"numeric(3,-2)": ("12345",), "numeric(2,5)": ("0.00012",)},
    17: {"interval": ("'infinity'", "'-infinity'")},
}


def setup(major: int) -> Iterator[str]:
    yield _SETUP
    for identity in IDENTITIES:
        columns = ", ".join(f"c{at} {type_}" for at, (type_, _) in enumerate(_columns(major)))
        toast = "toasted text, pictures bytea"
        yield f"CREATE TABLE matrix_{identity} (id int PRIMARY KEY, {columns}, {toast})"
        yield f"ALTER TABLE matrix_{identity} ALTER toasted SET STORAGE EXTERNAL"
    yield "ALTER TABLE matrix_full REPLICA IDENTITY FULL"
    yield "ALTER TABLE matrix_index ALTER c1 SET NOT NULL, ADD UNIQUE (id, c1)"
    yield "ALTER TABLE matrix_index REPLICA IDENTITY USING INDEX matrix_index_id_c1_key"
    yield "ALTER TABLE matrix_nothing REPLICA IDENTITY NOTHING"


def rows(major: int, identity: str) -> Iterator[str]:
    """One value of each type a row, until all have been; where a type has no more, NULL."""
    columns = _columns(major)
    for at in range(max(len(values) for _, values in columns)):
        cells = [values[at] if at < len(values) else "NULL" for _, values in columns]
        if identity == "index":
            cells[1] = str(at)
        yield f"INSERT INTO matrix_{identity} VALUES ({at}, {', '.join(cells)}, repeat('toast', 600), NULL)"


def _columns(major: int) -> list[tuple[str, tuple[str, ...]]]:
    added = {type_: values for since, types in _SINCE.items() if since <= major for type_, values in types.items()}
    merged = {**_VALUES, **{type_: (*_VALUES.get(type_, ()), *values) for type_, values in added.items()}}
    return list(merged.items())
