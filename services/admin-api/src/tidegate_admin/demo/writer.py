"""Writes the shop's life into PostgreSQL: one connection, one thread, so that commit order is the order of the books.

Invariant: a change is entered before it is committed, and nothing is begun after `stop`; `end_lsn` then lies behind
the last commit.
"""

import threading
import time
from collections.abc import Callable
from random import Random

import psycopg

from tidegate.errors import TidegateError, TransientError
from tidegate.lsn import Lsn, parse_lsn
from tidegate_admin.demo.ledger import Ledger
from tidegate_admin.demo.shop import Cursor, Shop

CHANGES_A_SECOND = 30.0
_ROLLED_BACK_SHARE = 0.03
_SLOT_SECONDS = 0.05

_HAS_SLOT = "SELECT confirmed_flush_lsn IS NOT NULL FROM pg_replication_slots WHERE slot_name = %s"


class Writer:
    def __init__(
        self,
        dsn: str,
        slot: str,
        ledger: Ledger,
        *,
        changes_a_second: float = CHANGES_A_SECOND,
        seed: int | None = None,
    ) -> None:
        self._dsn, self._slot, self._ledger = dsn, slot, ledger
        self._changes_a_second = changes_a_second
        self._shop = Shop(Random(seed))  # noqa: S311 - a shop's whims are no secret
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="shop", daemon=True)
        self.failure: TidegateError | None = None
        self.end_lsn: Lsn | None = None
        self.is_writing = False

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Back when the last transaction is through."""
        self._stopping.set()
        if self._thread.ident:
            self._thread.join()

    def _run(self) -> None:
        try:
            with psycopg.connect(self._dsn, autocommit=True, connect_timeout=5) as connection:
                self._live(connection.cursor())
        except psycopg.Error as error:
            self.failure = TransientError(
                f"the shop's database failed: {type(error).__name__} {error.sqlstate or ''}".strip(),
                code="DEMO_WRITER_FAILED",
                remedy="Read postgres.log in the state directory.",
            )

    def _live(self, cursor: Cursor) -> None:
        self._shop.open(cursor)
        # What is written before there is a slot is nobody's to deliver.
        if not self._wait_until(lambda: cursor.execute(_HAS_SLOT, [self._slot]).fetchone() == (True,)):
            return
        self.is_writing = True
        while not self._stopping.is_set():
            begun = time.monotonic()
            changes = self._transact(cursor)
            pause = changes / self._changes_a_second - (time.monotonic() - begun)
            self._stopping.wait(max(0.0, pause))
        self.is_writing = False
        row = cursor.execute("SELECT pg_current_wal_lsn()::text").fetchone()
        self.end_lsn = parse_lsn(row[0]) if row else None

    def _transact(self, cursor: Cursor) -> int:
        """Now and then one is rolled back: of it nothing may ever arrive."""
        cursor.execute("BEGIN")
        if self._shop.random.random() < _ROLLED_BACK_SHARE:
            self._shop.reprice(cursor)
            self._ledger.rolled_back(_xid(cursor))
            cursor.execute("ROLLBACK")
            return 1
        changes = self._shop.choose()(cursor)
        self._ledger.enter(_xid(cursor), changes)
        cursor.execute("COMMIT")
        return len(changes)

    def _wait_until(self, condition: Callable[[], bool]) -> bool:
        while not condition():
            if self._stopping.wait(_SLOT_SECONDS):
                return False
        return True


def _xid(cursor: Cursor) -> int:
    row = cursor.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
    return int(row[0]) if row else 0
