"""One large table that was there before, who writes to it, and what a consumer of its topic has of it.

The consumer keeps a row as two numbers, for five million of them: what its small columns are, and what the one is that
is stored out of line. The topic has one partition, so its order is that of the stream.

Invariant: `Copy` does what the reference page of the event tells a consumer to do, and knows nothing else.
"""

import random
import threading
from array import array
from collections.abc import Iterator
from typing import Any

import psycopg
from chaos.fleet.deliveries import Arrived

WRITERS = 8
SCHEMA = """
CREATE SEQUENCE stock_ids;
CREATE TABLE stock (id bigint PRIMARY KEY DEFAULT nextval('stock_ids'), note text NOT NULL, big text);
ALTER TABLE stock ALTER big SET STORAGE EXTERNAL;
"""
FILL = """
INSERT INTO stock (note, big)
SELECT 'before ' || n, CASE WHEN n %% 50 = 0 THEN repeat(md5(n::text), 100) END FROM generate_series(1, %s) n
"""
_UNKNOWN, _GONE = 0, -1
_MOST_TOLD = 3
_EACH_SECONDS = WRITERS / 150


class Copy:
    def __init__(self) -> None:
        self._small, self._big = array("q", [_UNKNOWN]), array("q", [_UNKNOWN])
        self._ids: set[int] = set()
        self.rows = self.changes = 0
        self.wrong: list[tuple[str, str]] = []

    def take(self, arrived: Arrived) -> None:
        identity = hash(arrived.event["id"])
        if identity in self._ids:
            self._tell("I5", "an event came twice")
        self._ids.add(identity)
        payload = arrived.event["payload"]
        row, old = payload["row"], payload["old"]
        self.rows += arrived.is_row
        self.changes += not arrived.is_row
        if arrived.is_row:
            self._read(row)
            return
        if old is not None:
            before = _id(old)
            if row is not None and "big" in payload["unchanged"] and _id(row) != before:
                self._set(_id(row), big=self._at(before)[1])
            self._set(before, _GONE, _GONE)
        if row is not None:
            self._set(_id(row), _mark(row["note"]), None if "big" in payload["unchanged"] else _mark(row["big"]))

    def holds(self, id_: int) -> bool:
        return self._at(id_)[0] not in (_UNKNOWN, _GONE)

    def compare(self, dsn: str) -> None:
        missing = differing = 0
        there = set[int]()
        for id_, note, big in _source(dsn):
            there.add(id_)
            small, large = self._at(id_)
            missing += small in (_UNKNOWN, _GONE)
            differing += small not in (_UNKNOWN, _GONE) and (small, large) != (_mark(note), _mark(big))
        extra = sum(small not in (_UNKNOWN, _GONE) and id_ not in there for id_, small in enumerate(self._small))
        for count, what in ((missing, "missing"), (differing, "not as in the source"), (extra, "too many")):
            if count:
                self.wrong.append(("I6", f"{count} of {len(there)} rows {what}"))

    def _read(self, row: dict[str, Any]) -> None:
        """What is known already is newer, or the same."""
        id_, small, big = _id(row), _mark(row["note"]), _mark(row["big"])
        for known, read in zip(self._at(id_), (small, big), strict=True):
            if known == _GONE:
                self._tell("I6", "a snapshot's row that is gone by then")
            elif known not in (_UNKNOWN, read):
                self._tell("I6", "a snapshot's row that is older than a change before it")
        self._set(id_, small, big)

    def _at(self, id_: int) -> tuple[int, int]:
        return (self._small[id_], self._big[id_]) if id_ < len(self._small) else (_UNKNOWN, _UNKNOWN)

    def _set(self, id_: int, small: int | None = None, big: int | None = None) -> None:
        more = id_ + 1 - len(self._small)
        if more > 0:
            self._small.extend([_UNKNOWN] * more)
            self._big.extend([_UNKNOWN] * more)
        self._small[id_] = self._small[id_] if small is None else small
        self._big[id_] = self._big[id_] if big is None else big

    def _tell(self, invariant: str, what: str) -> None:
        if self.wrong.count((invariant, what)) < _MOST_TOLD:
            self.wrong.append((invariant, what))


class Writer(threading.Thread):
    """Every kind of change, by itself; a server that is away is waited for."""

    def __init__(self, dsn: str, seed: str, number: int) -> None:
        super().__init__(name=f"writer {number}", daemon=True)
        self.ending = threading.Event()
        self.committed = 0
        self._dsn, self._draw = dsn, random.Random(f"{seed} writer {number}")

    def run(self) -> None:
        while not self.ending.is_set():
            try:
                with psycopg.connect(self._dsn, autocommit=True, connect_timeout=3) as link:
                    while not self.ending.wait(self._draw.expovariate(1 / _EACH_SECONDS)):
                        self._write(link)
                        self.committed += 1
            except psycopg.Error:
                self.ending.wait(0.1)

    def _write(self, link: "psycopg.Connection[Any]") -> None:
        draw = self._draw
        [newest] = link.execute("SELECT last_value FROM stock_ids").fetchone() or (1,)
        key, note = draw.randint(1, newest), f"by {self.name} {self.committed}"
        match draw.randrange(6):
            case 0:
                link.execute("DELETE FROM stock WHERE id = %s", [key])
            case 1:
                link.execute("INSERT INTO stock (note, big) VALUES (%s, %s)", [note, note * draw.choice((1, 500))])
            case 2:
                link.execute("UPDATE stock SET id = nextval('stock_ids') WHERE id = %s", [key])
            case 3:
                link.execute("UPDATE stock SET big = %s WHERE id = %s", [note * 300, key])
            case 4:
                with link.transaction():
                    link.execute("DELETE FROM stock WHERE id = %s", [key])
                    link.execute("INSERT INTO stock VALUES (%s, %s, NULL) ON CONFLICT DO NOTHING", [key, note])
            case _:
                link.execute("UPDATE stock SET note = %s WHERE id = %s", [note, key])


def _source(dsn: str) -> Iterator[tuple[int, str, str | None]]:
    with psycopg.connect(dsn) as link, link.cursor("stock") as cursor:
        cursor.itersize = 50_000
        yield from cursor.execute("SELECT id, note, big FROM stock")


def _id(row: dict[str, Any]) -> int:
    return int(row["id"].digits)


def _mark(value: str | None) -> int:
    """Of 62 bits, never one of the two above: two values that differ are taken for one once in 10¹⁸ times."""
    return (hash((value,)) & (2**62 - 1)) + 1
