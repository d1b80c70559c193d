"""Eight writers with seeds of their own: small and large transactions, roll-backs, savepoints, transfers, DDL, values.

Invariant: a transaction is entered in the ledger once its outcome is known, and `paused` returns when no writer is
inside one. What a writer draws depends on its seed alone, not on what the others or the faults do.
"""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from chaos.fleet.ledger import Entry, Ledger, Outcome
from chaos.fleet.moves import MOVES, Moves
from kit.wait import wait

WRITERS = 8
_SESSION: Any = {"connect_timeout": 3, "options": "-c lock_timeout=5s"}
_PAUSE_SECONDS = 20.0
_AGAIN_SECONDS = 0.1
_ROLLED_BACK_SHARE = 0.05


class Load:
    def __init__(self, dsn: str, seed: str, *, transactions_a_second: float) -> None:
        self.ledger = Ledger()
        self._writers = [
            Writer(dsn, number, f"{seed} writer {number}", self.ledger, WRITERS / transactions_a_second)
            for number in range(WRITERS)
        ]

    def start(self) -> None:
        for writer in self._writers:
            writer.start()

    def stop(self) -> None:
        for writer in self._writers:
            writer.ending.set()
            writer.running.set()
        for writer in self._writers:
            if writer.ident is not None:
                writer.join(_PAUSE_SECONDS)

    @contextmanager
    def flowing(self) -> Iterator[None]:
        self.resume()
        try:
            yield
        finally:
            self.pause()

    def resume(self) -> None:
        for writer in self._writers:
            writer.running.set()

    def pause(self) -> None:
        for writer in self._writers:
            writer.running.clear()
        wait(lambda: all(writer.stands.is_set() for writer in self._writers), _PAUSE_SECONDS, "all writers stand")

    def wait_for(self, transactions: int, seconds: float) -> None:
        """So many more that the server has confirmed."""
        wanted = self.ledger.committed + transactions
        wait(lambda: self.ledger.committed >= wanted, seconds, f"{transactions} more transactions are committed")


class Writer(threading.Thread):
    def __init__(self, dsn: str, number: int, seed: str, ledger: Ledger, pause_seconds: float) -> None:
        super().__init__(name=f"writer {number}", daemon=True)
        self.running, self.stands, self.ending = threading.Event(), threading.Event(), threading.Event()
        self.stands.set()
        self._dsn, self._number, self._ledger, self._pause = dsn, number, ledger, pause_seconds
        self._random = random.Random(seed)
        self._moves = Moves(self._random, number)

    def run(self) -> None:
        """The server may go away and come back at any time."""
        while not self.ending.is_set():
            try:
                with psycopg.connect(
                    self._dsn, autocommit=True, connect_timeout=3, options="-c lock_timeout=5s"
                ) as link:
                    self._write(link)
            except psycopg.Error:
                self.stands.set()
                self.ending.wait(_AGAIN_SECONDS)

    def _write(self, link: "psycopg.Connection[tuple[object, ...]]") -> None:
        while not self.ending.is_set():
            if not self.running.is_set():
                self.stands.set()
                self.running.wait()
            else:
                self.stands.clear()
                if self.running.is_set():
                    self._transact(link.cursor())
                    self.ending.wait(self._random.expovariate(1 / self._pause))

    def _transact(self, cursor: "psycopg.Cursor[tuple[object, ...]]") -> None:
        move = self._random.choices(MOVES, [each.weight for each in MOVES])[0]
        rolls_back = self._random.random() < _ROLLED_BACK_SHARE
        cursor.execute("BEGIN")
        found = cursor.execute("SELECT pg_current_xact_id()::text").fetchone()
        assert found is not None
        entry = Entry(self._number, int(str(found[0])) & 0xFFFFFFFF)
        try:
            move.make(self._moves, cursor, entry)
            if rolls_back:
                cursor.execute("ROLLBACK")
        except psycopg.Error:
            self._ledger.enter(entry, Outcome.FAIL)  # a COMMIT was not sent
            self._moves.forget()
            cursor.execute("ROLLBACK")
            return
        if rolls_back:
            self._ledger.enter(entry, Outcome.FAIL)
            self._moves.forget()
            return
        self._commit(cursor, entry)

    def _commit(self, cursor: "psycopg.Cursor[tuple[object, ...]]", entry: Entry) -> None:
        try:
            cursor.execute("COMMIT")
        except psycopg.OperationalError:
            self._ledger.enter(entry, Outcome.INFO)
            self._moves.forget()
            raise
        except psycopg.Error:
            self._ledger.enter(entry, Outcome.FAIL)
            self._moves.forget()
            return
        self._ledger.enter(entry, Outcome.OK)
        self._moves.keep()
