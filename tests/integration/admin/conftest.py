"""One admin service on real servers for all tests that ask for it."""

import uuid
from collections.abc import Iterator

import pytest
from kit.admin_process import AdminPlace, admin_place
from kit.pipelines import document
from kit.servers import drop_database
from kit.topics import make_topic

TABLES = """
CREATE TABLE orders (id int PRIMARY KEY, note text, amount numeric(10,2), tags text[], made timestamptz DEFAULT now());
CREATE TABLE plain (id int);
CREATE TABLE "odd ""name"" ; --" (id int PRIMARY KEY);
CREATE DOMAIN posint AS int CHECK (VALUE > 0);
CREATE DOMAIN small AS posint;
CREATE TABLE typed (id bigint, a small, b jsonb, c bytea, d bool, e double precision, f timestamp, g int[], h xml);
ALTER TABLE typed REPLICA IDENTITY FULL;
CREATE PUBLICATION mine FOR TABLE orders, typed (id, a) WITH (publish = 'insert,update');
CREATE PUBLICATION everything FOR ALL TABLES;
"""


@pytest.fixture(scope="module")
def place(postgres, kafka, redis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminPlace]:
    name = f"t{uuid.uuid4().hex[:12]}"
    dsn, folder = postgres.ensure_database(name), tmp_path_factory.mktemp("admin")
    make_topic(kafka.bootstrap, f"tidegate.{name}.raw")
    try:
        source = document(name, kafka=kafka.bootstrap, redis_url=redis.url, postgres=dsn)["source"]
        source["publication"] = {"manage": False, "names": ["mine"]}  # it may then be changed through the API
        with admin_place(folder, name, dsn=dsn, bootstrap=kafka.bootstrap, redis_url=redis.url, source=source) as made:
            for statement in TABLES.strip().split(";\n"):
                made.source.execute(statement)
            yield made
    finally:
        drop_database(postgres.dsn(), name)
