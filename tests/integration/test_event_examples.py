"""docs/reference/event.md is true: every example in it is what a real PostgreSQL and we make of that value."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tidegate.lsn import parse_lsn
from tidegate.pgoutput import RelationMap, decode_message
from tidegate.pgoutput.copy_text import copy_rows
from tidegate.pgoutput.messages import Begin, Insert, Message, Relation, Type
from tidegate_processor.encodings.envelope import EventContext
from tidegate_processor.encodings.json import JsonPlan

PAGE = Path(__file__).parents[2] / "docs/reference/event.md"
EXAMPLE = re.compile(r"^\| `(.+?)` \| `(.+?)` \| `(.+?)` \| `(.+?)` \|$", re.MULTILINE)

SETUP = """
CREATE TYPE mood AS ENUM ('sad', 'fine');
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN posint AS int CHECK (VALUE > 0);
"""
# What the reader pins in its startup packet.
PINS = """
SET DateStyle = 'ISO'; SET TimeZone = 'UTC'; SET IntervalStyle = 'postgres'; SET extra_float_digits = 3;
SET bytea_output = 'hex'; SET client_encoding = 'UTF8';
"""


def _examples() -> list[tuple[str, str, str, str]]:
    return EXAMPLE.findall(PAGE.read_text(encoding="utf-8"))


def _changes(connection: psycopg.Connection[Any]) -> Iterator[tuple[str, Message]]:
    peeked = connection.execute(
        "SELECT lsn, data FROM pg_logical_slot_get_binary_changes('examples', NULL, NULL,"
        " 'proto_version', '1', 'publication_names', 'examples')"
    )
    for lsn, data in peeked:
        yield lsn, decode_message(data)


def test_the_page_has_an_example_of_every_kind() -> None:
    assert len(_examples()) > 50


def test_every_example_is_what_a_server_sends_and_we_encode(database: Any) -> None:
    """One row with a column an example, through pgoutput: text and JSON are those of the page."""
    examples = _examples()
    columns = sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(f"c{number}"), sql.SQL(kind))  # type: ignore[arg-type]
        for number, (kind, *_) in enumerate(examples)
    )
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        # pg_logical_slot_get_binary_changes reads flushed WAL only.
        connection.execute("SET synchronous_commit = on")
        connection.execute(SETUP)
        connection.execute(sql.SQL("CREATE TABLE examples (id int PRIMARY KEY, {})").format(columns))
        connection.execute("CREATE PUBLICATION examples FOR ALL TABLES")
        connection.execute("SELECT pg_create_logical_replication_slot('examples', 'pgoutput')")
        values = sql.SQL(", ").join(sql.SQL(value) for _, value, *_ in examples)  # type: ignore[arg-type]
        connection.execute(sql.SQL("INSERT INTO examples VALUES (1, {})").format(values))
        connection.execute(PINS)
        row, texts = _encoded(list(_changes(connection)))
        with connection.cursor() as cursor, cursor.copy("COPY examples TO STDOUT") as copy:
            (copied,) = copy_rows(b"".join(bytes(piece) for piece in copy), len(examples) + 1)

    said = [
        (kind, value, *made) for (kind, value, *_), made in zip(examples, zip(texts, row, strict=True), strict=True)
    ]
    assert examples == said
    assert texts == [value.decode() for value in copied[1:] if value is not None], "a snapshot reads the same texts"


def _encoded(changes: list[tuple[str, Message]]) -> tuple[list[str], list[str]]:
    """The values of the one row as JSON, and as the server sent them, without the key."""
    relations = RelationMap()
    for lsn, message in changes:
        if isinstance(message, Begin):
            begin = message
        elif isinstance(message, Relation | Type):
            relations.learn(message)
        elif isinstance(message, Insert):
            plan = JsonPlan(relations.relation(message.relation_id), relations.types(), EventContext("p", "d", 1))
            place = {"xid": begin.xid, "commit_lsn": begin.commit_lsn, "commit_time": begin.commit_time}
            event = plan.encode(message, **place, ordinal=0, lsn=parse_lsn(lsn))
            json.loads(event.value)
            texts = [value.decode() for value in message.new[1:]]  # type: ignore[union-attr]
            return _members(event.value), texts
    pytest.fail("the row never came")


def _members(value: bytes) -> list[str]:
    """The row's values as they are written, verbatim."""
    row = value.decode().partition('"row":{"id":1,')[2].rpartition('},"old":null')[0]
    return re.split(r',?"c\d+":', row)[1:]
