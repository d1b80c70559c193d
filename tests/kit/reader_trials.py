"""What the reader's trials share: writers whose rows are numbered, sinks that ack, settings of the server, and the
question whether every row is in the raw topic once and in order."""

import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from kit.wait import wait

from tidegate.lsn import parse_lsn
from tidegate.pgoutput.messages import Insert

TIMES = int(os.environ.get("TIDEGATE_TESTS_TRIALS", "1"))
"""How often each trial is run."""
Trial = Callable[[Any, random.Random], None]


class Trials:
    """Those of one file, by number and name."""

    def __init__(self) -> None:
        self.named: dict[str, Trial] = {}

    def __call__(self, number: str) -> Callable[[Trial], Trial]:
        def keep(function: Trial) -> Trial:
            self.named[f"{number} {function.__name__}"] = function
            return function

        return keep


def caught_up(fleet: Any) -> None:
    written = [row[0] for row in fleet.sql("SELECT id FROM orders ORDER BY id")]
    wait(lambda: len(rows(fleet)) >= len(written), 60, "every row is in the raw topic")
    assert rows(fleet) == written


def produced(fleet: Any) -> None:
    """Until the raw topic reaches behind what is committed now, whatever it holds: what is missing then is missing."""
    [(mark,)] = fleet.sql("SELECT pg_logical_emit_message(true, 'trial', 'end')::text")
    wait(lambda: fleet.status().produced_lsn >= parse_lsn(mark), 30, "the raw topic reaches behind the trial's end")


def add(fleet: Any, count: int) -> None:
    for _ in range(count):
        fleet.sql("INSERT INTO orders (note) VALUES ('row')")


def rows(fleet: Any) -> list[int]:
    return [int(each.new[0]) for each in fleet.messages() if isinstance(each, Insert)]


@contextmanager
def writing(fleet: Any) -> Iterator[None]:
    """One writer, small transactions, until the end of the trial; sinks ack. The slot exists by then."""
    if not fleet.processes:
        fleet.stop(fleet.reader())
    enough = threading.Event()

    def write() -> None:
        with psycopg.connect(fleet.dsn, autocommit=True) as connection:
            while not enough.wait(0.005):
                connection.execute("INSERT INTO orders (note) SELECT 'row' FROM generate_series(1, 3)")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        with acking(fleet):
            yield
    finally:
        enough.set()
        thread.join()


@contextmanager
def acking(fleet: Any) -> Iterator[None]:
    enough = threading.Event()

    def ack() -> None:
        while not enough.wait(0.3):
            if fleet.records():
                fleet.ack_everything()

    thread = threading.Thread(target=ack)
    thread.start()
    try:
        yield
    finally:
        enough.set()
        thread.join()


@contextmanager
def setting(fleet: Any, name: str, value: str) -> Iterator[None]:
    """Of the whole server, for as long as it is needed."""
    fleet.sql(f"ALTER SYSTEM SET {name} = '{value}'")
    fleet.sql("SELECT pg_reload_conf()")
    try:
        yield
    finally:
        fleet.sql(f"ALTER SYSTEM RESET {name}")
        fleet.sql("SELECT pg_reload_conf()")
