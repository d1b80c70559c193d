"""The transactions that a writer makes, each with what it is for.

Invariant: a row of a writer is changed by that writer alone, but for `transfer`; rows known to exist are those of
transactions that the server has confirmed (`keep`).
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chaos.fleet import tables
from chaos.fleet.ledger import Entry

Cursor = Any  # psycopg's, of whatever row
_WRITER_ROOM = 10**9
_LARGE_BYTES = 9_000


class Moves:
    def __init__(self, draw: random.Random, writer: int) -> None:
        self.draw, self.writer = draw, writer
        self._next = writer * _WRITER_ROOM
        self._orders: list[int] = []
        self._odd: list[tuple[str, int]] = []
        self._new: list[int] = []
        self._new_odd: list[tuple[str, int]] = []
        self._gone: list[int] = []

    def keep(self) -> None:
        self._orders = [each for each in self._orders if each not in self._gone] + self._new
        self._odd += self._new_odd
        self.forget()

    def forget(self) -> None:
        self._new, self._new_odd, self._gone = [], [], []

    def insert_orders(self, cursor: Cursor, entry: Entry, count: int = 0) -> None:
        for _ in range(count or self.draw.randint(1, 4)):
            self._order(cursor, entry)

    def change_orders(self, cursor: Cursor, entry: Entry) -> None:
        """Rows with a large value that stays as it is: the third state besides value and null."""
        for order in self._some(self._orders, 3):
            undone = Entry(self.writer, entry.xid)
            token = self._token(undone)
            cursor.execute("UPDATE orders SET token = %s, note = %s WHERE id = %s", [token, self._text(), order])
            self._entered(cursor, entry, undone)

    def move_key(self, cursor: Cursor, entry: Entry) -> None:
        for order in self._some(self._orders, 1):
            undone = Entry(self.writer, entry.xid)
            new, token = self._id(), self._token(undone)
            cursor.execute("UPDATE orders SET id = %s, token = %s WHERE id = %s", [new, token, order])
            self._entered(cursor, entry, undone)
            self._gone.append(order)
            self._new.append(new)

    def delete_and_insert(self, cursor: Cursor, entry: Entry) -> None:
        """One key, gone and back within a transaction."""
        for order in self._some(self._orders, 1):
            cursor.execute("DELETE FROM orders WHERE id = %s", [order])
            cursor.execute("INSERT INTO orders VALUES (%s, %s, %s, NULL)", [order, self._token(entry), self._text()])
        self.insert_orders(cursor, entry, 1)

    def delete_orders(self, cursor: Cursor, entry: Entry) -> None:
        some = self._some(self._orders, 2)
        cursor.execute("DELETE FROM orders WHERE id = ANY(%s)", [some])
        self._gone += some
        self.insert_orders(cursor, entry, 1)

    def transfer(self, cursor: Cursor, entry: Entry) -> None:
        """The sum of all accounts never changes, at no commit."""
        giver, taker = sorted(self.draw.sample(range(1, tables.ACCOUNTS + 1), 2))
        amount = self.draw.randint(-50, 50)
        cursor.execute("UPDATE accounts SET balance = balance - %s WHERE id = %s", [amount, giver])
        self.insert_orders(cursor, entry, 1)
        cursor.execute("UPDATE accounts SET balance = balance + %s WHERE id = %s", [amount, taker])

    def half_undone(self, cursor: Cursor, entry: Entry) -> None:
        self.insert_orders(cursor, entry, 1)
        for _ in range(self.draw.randint(1, 3)):
            undone, made = Entry(self.writer, entry.xid), len(self._new)
            cursor.execute("SAVEPOINT here")
            self.insert_orders(cursor, undone)
            cursor.execute("ROLLBACK TO here")
            entry.undone += undone.tokens
            del self._new[made:]
            cursor.execute("SAVEPOINT there")
            self.insert_orders(cursor, entry, 1)
            cursor.execute("RELEASE there")

    def many_rows(self, cursor: Cursor, entry: Entry) -> None:
        """One statement, more than a frame is likely to hold beside others."""
        count = self.draw.randint(50, 200)
        first = self._next
        self._next += count
        entry.tokens += [f"{self.writer}.{number}" for number in range(first, first + count)]
        cursor.execute(
            "INSERT INTO keyless SELECT %s || '.' || n, n %% 100 FROM generate_series(%s::bigint, %s::bigint) n",
            [str(self.writer), first, first + count - 1],
        )

    def large_row(self, cursor: Cursor, entry: Entry) -> None:
        self._order(cursor, entry, filler=self.draw.choice((300_000, 1_200_000)))

    def hostile(self, cursor: Cursor, entry: Entry) -> None:
        pick: Callable[[tuple[str, ...]], str | None] = lambda among: self.draw.choice((*among, None))  # noqa: E731
        for _ in range(self.draw.randint(1, 5)):
            cursor.execute(
                "INSERT INTO hostile VALUES (%s, %s, %s::numeric, %s::float8, %s::timestamptz, %s::date, %s::jsonb,"
                " %s::bytea, %s::integer[], %s::boolean, %s::interval)",
                [
                    self._id(), pick(tables.TEXTS), pick(tables.NUMBERS), pick(tables.FLOATS), pick(tables.TIMES),
                    pick(tables.DATES), pick(tables.DOCUMENTS), pick(tables.BYTES), pick(tables.INTS),
                    pick(("true", "false")), pick(tables.INTERVALS),
                ],
            )  # fmt: skip
        self.insert_orders(cursor, entry, 1)

    def odd_names(self, cursor: Cursor, entry: Entry) -> None:
        key = (self._text(), self._id() % 2**31)
        cursor.execute('INSERT INTO "Odd Näme.x" VALUES (%s, %s, %s)', [*key, self._text()])
        self._new_odd.append(key)
        for old in self._some(self._odd, 1):
            cursor.execute(
                'UPDATE "Odd Näme.x" SET v = %s WHERE "a ""key" = %s AND "sel ect" = %s', [self._text(), *old]
            )
        self.insert_orders(cursor, entry, 1)

    def reshape(self, cursor: Cursor, entry: Entry) -> None:
        """DDL between two rows of one transaction."""
        name = f"{self.draw.choice(('added_n', 'added_t'))}{self.writer}"
        cursor.execute("INSERT INTO shaped (id, token) VALUES (%s, %s)", [self._id(), self._token(entry)])
        found = cursor.execute(
            "SELECT 1 FROM pg_attribute WHERE attrelid = 'shaped'::regclass AND attname = %s AND NOT attisdropped",
            [name],
        ).fetchone()
        kind = "integer" if name.startswith("added_n") else "text"
        cursor.execute(f"ALTER TABLE shaped {'DROP' if found else 'ADD'} COLUMN {name} {'' if found else kind}")
        cursor.execute("INSERT INTO shaped (id, token) VALUES (%s, %s)", [self._id(), self._token(entry)])

    def empty_a_table(self, cursor: Cursor, entry: Entry) -> None:
        for _ in range(2):
            cursor.execute("INSERT INTO fleeting VALUES (%s, %s)", [self._id(), self._token(entry)])
        if self.draw.random() < 0.3:
            cursor.execute("TRUNCATE fleeting")
        self.insert_orders(cursor, entry, 1)

    def across_partitions(self, cursor: Cursor, entry: Entry) -> None:
        """A row that moves to another partition is a delete here and an insert there."""
        row, regions = self._id(), self.draw.choice(("ns", "sn"))
        cursor.execute("INSERT INTO parted VALUES (%s, %s, %s)", [row, regions[0], self._token(entry)])
        cursor.execute("UPDATE parted SET token = %s WHERE id = %s", [self._token(entry), row])
        cursor.execute("UPDATE parted SET region = %s, token = %s WHERE id = %s", [regions[1], self._token(entry), row])
        if self.draw.random() < 0.3:
            cursor.execute("DELETE FROM parted WHERE id = %s", [row])

    def _order(self, cursor: Cursor, entry: Entry, filler: int = 0) -> None:
        order = self._id()
        filler = filler or (_LARGE_BYTES if self.draw.random() < 0.2 else 10)
        cursor.execute(
            "INSERT INTO orders VALUES (%s, %s, %s, repeat('f', %s))", [order, self._token(entry), self._text(), filler]
        )
        self._new.append(order)

    @staticmethod
    def _entered(cursor: Cursor, entry: Entry, made: Entry) -> None:
        """Where an earlier COMMIT was never answered, the row may be gone."""
        entry.tokens += made.tokens if cursor.rowcount else []

    def _some(self, among: list[Any], most: int) -> list[Any]:
        return self.draw.sample(among, min(len(among), most))

    def _text(self) -> str:
        return self.draw.choice(tables.TEXTS)

    def _id(self) -> int:
        self._next += 1
        return self._next

    def _token(self, entry: Entry) -> str:
        token = f"{self.writer}:{self._id()}"
        entry.tokens.append(token)
        return token


@dataclass(frozen=True, slots=True)
class Move:
    make: Callable[[Moves, Cursor, Entry], None]
    weight: int


MOVES = (
    Move(Moves.insert_orders, 25),
    Move(Moves.change_orders, 15),
    Move(Moves.transfer, 15),
    Move(Moves.half_undone, 8),
    Move(Moves.hostile, 8),
    Move(Moves.odd_names, 6),
    Move(Moves.delete_orders, 6),
    Move(Moves.delete_and_insert, 5),
    Move(Moves.move_key, 5),
    Move(Moves.empty_a_table, 3),
    Move(Moves.across_partitions, 3),
    Move(Moves.many_rows, 2),
    Move(Moves.reshape, 1),
    Move(Moves.large_row, 2),
)
