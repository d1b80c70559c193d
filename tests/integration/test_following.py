"""A source that is altered while it is written to, and its target in another database, which follows by itself."""

from pathlib import Path

import psycopg
import pytest
from kit.fleet import service, spark_jars
from kit.pipelines import document, secrets_of, written
from kit.wait import wait

pytestmark = pytest.mark.timeout(300)
START_SECONDS = 120
PASSWORD = "TIDEGATE_TEST_TARGET_PASSWORD"
STEPS = (
    "INSERT INTO orders VALUES (1, 'one', 1, 'x'), (2, 'two', 2, 'y')",
    "ALTER TABLE orders RENAME COLUMN note TO remark; INSERT INTO orders VALUES (3, 'three', 3, 'z')",
    "ALTER TABLE orders ALTER COLUMN n TYPE bigint; INSERT INTO orders VALUES (4, 'four', 5000000000, 'z')",
    "ALTER TABLE orders DROP COLUMN old, ADD COLUMN since date; INSERT INTO orders VALUES (5, 'five', 5, '2026-01-01')",
    "ALTER TABLE orders DROP CONSTRAINT orders_pkey, ADD PRIMARY KEY (id, n); INSERT INTO orders VALUES (5, 'v', 55)",
    "UPDATE orders SET remark = 'other' WHERE id = 5 AND n = 55; DELETE FROM orders WHERE id = 2",
)
SLOT = "SELECT 1 FROM pg_replication_slots WHERE database = current_database()"
ROWS = "SELECT id, remark, n, since FROM public.orders ORDER BY id, n"


def test_a_target_is_what_its_table_has_become(postgres, kafka, redis, database, prefix: str, tmp_path: Path) -> None:
    target = postgres.ensure_database(f"{prefix}_target")
    dsn = f"postgresql://{postgres.user}@{postgres.host}:{postgres.port}/{prefix}_target"
    values = document(prefix, kafka=kafka.bootstrap, redis_url=redis.url, postgres=database.dsn)
    options = {"dsn": dsn, "password": f"${{env:{PASSWORD}}}"}
    values["sinks"] = [{"name": "copies", "type": "pg_table", "options": options}]
    file = written(tmp_path, values)
    environ = secrets_of(redis_url=redis.url, postgres=database.dsn) | spark_jars() | {PASSWORD: postgres.password}
    with (
        psycopg.connect(database.dsn, autocommit=True) as source,
        service("tidegate-processor", file, environ) as processor,
        service("tidegate-reader", file, environ) as reader,
    ):
        source.execute("CREATE TABLE orders (id int PRIMARY KEY, note text, n int, old text)")
        processor.start()
        reader.start()
        wait(lambda: source.execute(SLOT).fetchone(), 60, "the reader has made its slot")
        for step in STEPS:
            source.execute(step)
        expected = source.execute(ROWS).fetchall()
        wait(lambda: found(target) == expected, START_SECONDS, "the target is as the source")

    with psycopg.connect(target) as there:
        types = there.execute(
            "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = 'public.orders'::regclass AND attnum > 0 ORDER BY attnum"
        ).fetchall()
    assert dict(types) == {"id": "integer", "remark": "text", "n": "bigint", "old": "text", "since": "date"}


def found(target: str) -> list[tuple[object, ...]]:
    with psycopg.connect(target) as there:
        try:
            return there.execute(ROWS).fetchall()
        except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn):
            return []
