"""What a consumer has of tables whose key is `id`, however large they are: of a row only what its values hash to.

Invariant: it does what the reference page of the event tells a consumer to do. Each event comes once, positions rise.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from chaos.fleet.deliveries import Arrived
from chaos.fleet.judge import Violation
from psycopg import sql

_MOST_TOLD = 5
_NULL = "\\N"
"""As COPY writes it."""


class Shown:
    def __init__(self) -> None:
        self.events = 0
        self._rows: dict[str, dict[str, int]] = {}
        self._ids: set[int] = set()
        self._last: dict[tuple[str, int], tuple[int, int]] = {}
        self.wrong: list[Violation] = []

    def take(self, arrived: Arrived) -> None:
        identity, place = hash(arrived.event["id"]), (arrived.topic, arrived.partition)
        if identity in self._ids:
            self._tell("I5", f"{arrived.table}: an event came twice")
        if arrived.position <= self._last.get(place, (0, 0)):
            self._tell("I4", f"{arrived.table}: a position goes back")
        self._ids.add(identity)
        self._last[place] = arrived.position
        self.events += 1
        self._apply(self._rows.setdefault(arrived.table, {}), arrived.event["payload"])

    def holds(self, table: str, id_: int) -> bool:
        return str(id_) in self._rows.get(table, {})

    def differences(self, dsn: str, tables: Sequence[str]) -> list[Violation]:
        """One violation for a kind, however many tables have it."""
        found = dict.fromkeys(("missing", "too many", "not as in the source"), 0)
        with psycopg.connect(dsn, autocommit=True) as link:
            for table in tables:
                source, mine = dict(_source(link, table)), self._rows.get(table, {})
                found["missing"] += len(source.keys() - mine.keys())
                found["too many"] += len(mine.keys() - source.keys())
                found["not as in the source"] += sum(source[key] != mine[key] for key in source.keys() & mine.keys())
        return [Violation("I6", f"{count} rows {how}") for how, count in found.items() if count]

    def _tell(self, invariant: str, what: str) -> None:
        if len(self.wrong) < _MOST_TOLD:
            self.wrong.append(Violation(invariant, what))

    @staticmethod
    def _apply(rows: dict[str, int], payload: dict[str, Any]) -> None:
        old, new = payload["old"], payload["row"]
        if old is not None:
            rows.pop(old["id"].digits, None)
        if new is not None:
            assert not payload["unchanged"], "a shape has no value that is stored out of line"
            rows[new["id"].digits] = hash(tuple(map(_text, new.values())))


def _text(value: Any) -> str:
    """As PostgreSQL has it: of numbers the digits."""
    return _NULL if value is None else value if isinstance(value, str) else str(value.digits)


def _source(link: "psycopg.Connection[Any]", table: str) -> Iterator[tuple[str, int]]:
    """All rows: those of a partitioned table are in others, which COPY reads only by a query."""
    copy = sql.SQL("COPY (SELECT * FROM {}) TO STDOUT").format(sql.Identifier(table))
    with link.cursor().copy(copy) as rows:
        for line in b"".join(rows).decode().splitlines():
            values = tuple(line.split("\t"))
            yield values[0], hash(values)
