"""O3: the tables of the other database, row by row, against the source's.

Invariant: compared when the writers stand and a row that was written after all theirs has come.
"""

import psycopg
from chaos.fleet import tables
from chaos.fleet.field import Field
from kit.wait import wait
from psycopg import sql

# Whole tables; of `shaped` what no DDL takes away, for a column that is dropped at the source stays in the target.
_COMPARED = {
    "accounts": "t",
    "orders": "t",
    "hostile": "t",
    "Odd Näme.x": "t",
    "keyless": "t",
    "shaped": "(id, token)",
    "fleeting": "t",
    "parted": "t",
    "sentinel": "t",
}
_DIGEST = "SELECT md5(coalesce(string_agg(md5(({what})::text), '' ORDER BY md5(({what})::text)), '')) FROM {table} t"


def database(field: Field) -> str:
    return f"{field.pipeline}_target"


def copy(field: Field) -> None:
    """The source's tables, and their rows as they are now."""
    admin = field.servers.postgres.dsn()
    with psycopg.connect(admin, autocommit=True) as link:
        link.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(database(field))))
    field.servers.postgres.ensure_database(database(field))
    with psycopg.connect(field.rig.dsn) as source, psycopg.connect(_dsn(field)) as made:
        made.execute(tables.SCHEMA)  # type: ignore[arg-type]
        for name in _COMPARED:
            _copy_table(source, made, name)


def compare(field: Field, seconds: float) -> None:
    """Raises as a violation if the target has not everything within that time, or has anything else."""
    field.load.pause()
    marker = field.own_id()
    field.rig.sql("INSERT INTO fleeting VALUES (%s, 'last')", marker)
    with psycopg.connect(_dsn(field), autocommit=True) as made, psycopg.connect(field.rig.dsn) as source:
        found = "SELECT count(*) FROM fleeting WHERE id = %s"
        wait(lambda: made.execute(found, [marker]).fetchone() == (1,), seconds, "I7: the target has the last row")
        for name, what in _COMPARED.items():
            digest = sql.SQL(_DIGEST).format(what=sql.SQL(what), table=sql.Identifier(name))  # type: ignore[arg-type]
            assert source.execute(digest).fetchone() == made.execute(digest).fetchone(), f"I6: {name} is another table"
    field.load.resume()


def _dsn(field: Field) -> str:
    return field.servers.postgres.dsn(database(field))


def _copy_table(
    source: "psycopg.Connection[tuple[object, ...]]", made: "psycopg.Connection[tuple[object, ...]]", name: str
) -> None:
    """`shaped` may have columns more than when it was made."""
    table = sql.Identifier(name)
    columns = source.execute(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        [f'"{name}"'],
    ).fetchall()
    for column, kind in columns:
        add = sql.SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS {} {}")
        made.execute(add.format(table, sql.Identifier(str(column)), sql.SQL(str(kind))))  # type: ignore[arg-type]
    made.execute(sql.SQL("TRUNCATE {}").format(table))
    listed = sql.SQL(", ").join(sql.Identifier(str(column)) for column, _ in columns)
    # COPY of a table reads no partitions, a query does.
    out, into = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT"), sql.SQL("COPY {} ({}) FROM STDIN")
    with (
        source.cursor().copy(out.format(listed, table)) as taken,
        made.cursor().copy(into.format(table, listed)) as given,
    ):
        for piece in taken:
            given.write(piece)
