"""What the applications do: transactions that interleave, roll back, change schemas, and never wait for us."""

import random

from chaos.simulator.postgres import Change, Server, Transaction

from tidegate.pgoutput.encode import encode_message
from tidegate.pgoutput.messages import (
    Column,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    OldKind,
    Relation,
    ReplicaIdentity,
    Update,
)

_INT4, _TEXT = 23, 25
_MOST_OPEN = 4
_KEYS = 6
_BIG_BYTES = 9_000
_MOST_COLUMNS = 5


class Workload:
    def __init__(self, server: Server, *, poison: bool) -> None:
        self.server = server
        self.tables = [_relation(16385, "orders", 2), _relation(16390, "items", 2)]
        self._poison = poison
        self._tokens = 0

    def step(self, dice: random.Random) -> Transaction | None:
        """The transaction that shall commit now, if one does."""
        server = self.server
        kind = dice.random()
        transactions = list(server.open.values())
        if kind < 0.04:
            server.record(dice.randint(8, 4096))  # somebody else's WAL
        elif kind < 0.07:
            self._alter(dice)
        elif kind < 0.09:
            server.loose_message(b"loose")
        elif transactions and (kind < 0.40 or len(transactions) == _MOST_OPEN):
            return self._end(dice, dice.choice(transactions))
        elif not transactions or kind < 0.60:
            self._change(dice, server.begin())
        else:
            transaction = dice.choice(transactions)
            saved = len(transaction.changes)
            for _ in range(dice.choice((1, 1, 1, 2, 5, 12))):
                self._change(dice, transaction)
            if dice.random() < 0.08:
                del transaction.changes[saved:]  # ROLLBACK TO SAVEPOINT: pgoutput never sees these
        return None

    def sentinel(self) -> Transaction:
        transaction = self.server.begin()
        self._row(transaction, self.tables[0], 99, Insert, b"sentinel-%d" % self._token())
        return transaction

    def _end(self, dice: random.Random, transaction: Transaction) -> Transaction | None:
        if dice.random() < 0.12:
            self.server.roll_back(transaction)
            return None
        return transaction

    def _change(self, dice: random.Random, transaction: Transaction) -> None:
        if dice.random() < 0.05:
            lsn = self.server.record()
            message = encode_message(LogicalMessage(1, lsn, "tidegate", b"beat"))
            transaction.changes.append(Change(lsn, message, None, b""))
            return
        table, key = dice.randrange(len(self.tables)), dice.randrange(_KEYS)
        row = (table, key)
        for other in self.server.open.values():
            if row in other.keys and other is not transaction:
                return  # a row lock
        transaction.keys.add(row)
        token = b"token-%d" % self._token()
        if self._poison and dice.random() < 0.1:
            token += b"-poison"
        if dice.random() < 0.01:
            token += b"x" * _BIG_BYTES
        self._row(transaction, self.tables[table], key, dice.choice((Insert, Update, Update, Delete)), token)

    def _row(self, transaction: Transaction, relation: Relation, key: int, kind: type[Message], token: bytes) -> None:
        number = b"%d" % key
        rest = tuple(None for _ in relation.columns[2:])
        message: Message
        if kind is Delete:
            message = Delete(relation.relation_id, OldKind.KEY, (number, None, *rest))
            mark = b'"old":{"id":%b' % number
        elif kind is Update:
            message = Update(relation.relation_id, None, None, (number, token, *rest))
            mark = token + b'"'
        else:
            message = Insert(relation.relation_id, (number, token, *rest))
            mark = token + b'"'
        encoded = encode_message(message)
        lsn = self.server.record(64 + len(encoded))
        transaction.changes.append(Change(lsn, encoded, relation, mark, b"poison" in encoded))

    def _alter(self, dice: random.Random) -> None:
        """ALTER TABLE waits for whoever has rows of the table; here it is only done when nobody has."""
        table = dice.randrange(len(self.tables))
        relation = self.tables[table]
        busy = any(held[0] == table for other in self.server.open.values() for held in other.keys)
        columns = len(relation.columns)
        if not busy:
            wanted = columns + 1 if columns < _MOST_COLUMNS else 2
            self.tables[table] = _relation(relation.relation_id, relation.name, wanted)
            self.server.record()

    def _token(self) -> int:
        self._tokens += 1
        return self._tokens


def _relation(oid: int, name: str, columns: int) -> Relation:
    extra = tuple(Column(0, f"c{number}", _TEXT, -1) for number in range(2, columns))
    described = (Column(1, "id", _INT4, -1), Column(0, "note", _TEXT, -1), *extra)
    return Relation(oid, "public", name, ReplicaIdentity.DEFAULT, described)
