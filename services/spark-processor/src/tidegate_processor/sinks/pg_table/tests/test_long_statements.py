"""A statement that takes long: by a trigger, or a foreign key without an index. The lane is heard of while the server
answers, and only then; what is for nothing is cancelled, by the lane or by the server that finds it gone."""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from kit.frames import row
from kit.pg_targets import KEYED, deliver, relation
from kit.sink_rigs import SINK, PgTableRig
from kit.wait import wait

from tidegate.errors import TransientError
from tidegate_processor.sinks.pg_table.place import connect_to_target
from tidegate_processor.sinks.shared import pg_connection
from tidegate_processor.sinks.shared import postgres as connections
from tidegate_processor.sinks.shared.pg_connection import Connection
from tidegate_processor.sinks.shared.postgres import run

_STAND = "SELECT pg_advisory_xact_lock(7)"
_WAITING = """
    SELECT count(*) > 0 FROM pg_locks JOIN pg_database ON pg_database.oid = database
    WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()
"""


@pytest.fixture
def rig(prefix: str, kafka, postgres, tmp_path: Path, monkeypatch) -> PgTableRig:
    monkeypatch.setattr(pg_connection, "_SPEAK_SECONDS", 0.05)
    monkeypatch.setattr(connections, "_PINS", {**connections._PINS, "lock_timeout": "30000"})
    return PgTableRig(prefix, kafka.bootstrap, "redis://127.0.0.1:1", tmp_path, postgres)


@pytest.fixture
def holder(rig: PgTableRig) -> Iterator[psycopg.Connection]:
    """Whoever asks for what it holds stands until it lets go, or until `lock_timeout`."""
    with psycopg.connect(rig.dsn, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(7)")
        yield connection


def stands(rig: PgTableRig, deferred: str = "") -> None:
    """A target whose rows take as long as the holder likes."""
    rig.ask("CREATE TABLE orders (id int PRIMARY KEY, note text)")
    rig.ask(
        "CREATE FUNCTION stand() RETURNS trigger LANGUAGE plpgsql "
        "AS $$ BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NULL; END $$"
    )
    rig.ask(f"CREATE CONSTRAINT TRIGGER stand AFTER INSERT ON orders {deferred} FOR EACH ROW EXECUTE FUNCTION stand()")


def is_waiting(holder: psycopg.Connection) -> bool:
    return holder.execute(_WAITING.encode()).fetchone() == (True,)


@contextmanager
def connected(rig: PgTableRig) -> Iterator[Connection]:
    connection = connect_to_target(rig.config, rig.config.sink(SINK))
    try:
        yield connection
    finally:
        connection.close()


@pytest.mark.parametrize("deferred", ["", "DEFERRABLE INITIALLY DEFERRED"], ids=["a statement", "the commit"])
def test_a_lane_is_heard_of_while_it_takes_long(rig: PgTableRig, holder: psycopg.Connection, deferred: str) -> None:
    """It was killed after 15 s, and met the same frame again: for ever."""
    stands(rig, deferred)
    spoken: list[bool] = []

    def speak() -> None:
        spoken.append(is_waiting(holder))
        if spoken.count(True) == 3:
            holder.execute("SELECT pg_advisory_unlock(7)")

    receipt = deliver(rig, [relation(*KEYED)], [row(1, "one")], speak=speak)

    assert (receipt.events, rig.rows()) == (1, {1: "one"})
    assert spoken.count(True) >= 3


def test_many_short_statements_are_no_silence_either(rig: PgTableRig, monkeypatch) -> None:
    monkeypatch.setattr(pg_connection, "_SPEAK_SECONDS", 0.0)
    spoken: list[bool] = []
    with connected(rig) as connection:
        connection.speak = lambda: spoken.append(True)
        for _ in range(5):
            run(connection, "SELECT 1")

    assert len(spoken) >= 5


def test_a_server_that_stands_still_is_not_spoken_for(
    rig: PgTableRig, holder: psycopg.Connection, in_docker: bool, monkeypatch
) -> None:
    if in_docker:
        pytest.skip("a container's processes cannot be stopped from here")
    stands(rig)
    spoken: list[bool] = []
    answered: list[bool] = []
    answers = Connection._answers

    def noted(self: Connection) -> bool:
        answered.append(answers(self))
        return answered[-1]

    monkeypatch.setattr(Connection, "_answers", noted)
    receipts: list[Any] = []

    def work() -> None:
        messages = [row(1, "one")]
        receipts.append(deliver(rig, [relation(*KEYED)], messages, speak=lambda: spoken.append(True)))

    working = threading.Thread(target=work)
    working.start()
    wait(lambda: answered.count(True) >= 2, 10, "it speaks while the server lives")
    os.kill(rig.postgres.pid, signal.SIGSTOP)  # nobody gets in any more
    try:
        wait(lambda: answered.count(False) == 1, 20, "the server does not answer")
        before = len(spoken)
        wait(lambda: answered.count(False) == 3, 20, "it still does not")
        silence = len(spoken) - before
    finally:
        os.kill(rig.postgres.pid, signal.SIGCONT)
    wait(lambda: len(spoken) > before, 10, "it speaks again")
    holder.execute("SELECT pg_advisory_unlock(7)")
    working.join(20)

    assert silence == 0
    assert (receipts[0].events, rig.rows()) == (1, {1: "one"})


def test_a_lane_that_was_superseded_ends_its_statement(rig: PgTableRig, holder: psycopg.Connection) -> None:
    def superseded() -> None:
        if is_waiting(holder):
            raise TransientError("superseded", code="LANE_SUPERSEDED")

    with connected(rig) as connection:
        run(connection, "BEGIN")
        connection.speak = superseded
        with pytest.raises(TransientError) as raised:
            run(connection, _STAND)

        assert raised.value.code == "LANE_SUPERSEDED"
        wait(lambda: not is_waiting(holder), 5, "the server has ended the statement")


def test_a_server_ends_the_statement_of_a_lane_that_died(rig: PgTableRig, holder: psycopg.Connection) -> None:
    """Its transaction held the row that the next one has to lock, for as long as the statement went on."""
    ((version,),) = rig.ask("SELECT current_setting('server_version_num')::int")
    if version < 140_000:
        pytest.skip("it does not look before PostgreSQL 14")
    with connected(rig) as connection:

        def stand() -> None:
            with pytest.raises(psycopg.OperationalError):
                run(connection, _STAND)

        standing = threading.Thread(target=stand)
        standing.start()
        wait(lambda: is_waiting(holder), 10, "the statement stands")
        with socket.socket(fileno=os.dup(connection.fileno())) as link:
            link.shutdown(socket.SHUT_RDWR)  # as the kernel does for a process that is gone
        wait(lambda: not is_waiting(holder), 8, "the server has looked for its client")
        standing.join(10)
