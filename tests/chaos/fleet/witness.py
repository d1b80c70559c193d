"""O2: the same WAL through another slot and another decoder, PostgreSQL's own test_decoding.

Invariant: nothing is advanced before it was read, and what a crash of the server sends again is taken once, by xid.
"""

import re
from dataclasses import dataclass, field
from typing import Any

import psycopg
from chaos.fleet import tables
from kit.other_decoder import UNCHANGED, parse

_SETTINGS = "-c timezone=UTC -c datestyle=ISO -c intervalstyle=postgres -c extra_float_digits=3 -c bytea_output=hex"
_TRUNCATE = re.compile(r"table (?P<tables>.+): TRUNCATE: ")
_NAME = re.compile(r'public\.(?:"((?:[^"]|"")*)"|(\w+))')
_KINDS = {"INSERT", "UPDATE", "DELETE"}


@dataclass(frozen=True, slots=True)
class Seen:
    """One change, values as PostgreSQL's text; `unchanged` are the columns that the server did not send."""

    table: str
    kind: str
    new: dict[str, str | None]
    old: dict[str, str | None]
    unchanged: frozenset[str] = frozenset()


@dataclass(slots=True)
class Transaction:
    xid: int
    changes: list[Seen] = field(default_factory=list)
    has_messages: bool = False


class Witness:
    def __init__(self, dsn: str, slot: str) -> None:
        self._dsn, self._slot = dsn, slot
        self._seen: set[int] = set()

    def create(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as link:
            link.execute("SELECT pg_create_logical_replication_slot(%s, 'test_decoding')", [self._slot])

    def take(self) -> list[Transaction]:
        """Those committed since the last call, in the order of their commits."""
        with psycopg.connect(self._dsn, autocommit=True, options=_SETTINGS) as link:
            rows = link.execute(
                "SELECT lsn::text, xid::text::bigint, data FROM pg_logical_slot_peek_changes(%s, NULL, NULL)",
                [self._slot],
            ).fetchall()
            found = [each for each in _transactions(rows) if each.xid not in self._seen]
            self._seen.update(each.xid for each in found)
            if rows:
                link.execute("SELECT pg_replication_slot_advance(%s, %s)", [self._slot, rows[-1][0]])
        return found


def _transactions(rows: list[tuple[Any, ...]]) -> list[Transaction]:
    done: list[Transaction] = []
    current = Transaction(0)
    for _, xid, data in rows:
        if data.startswith("BEGIN"):
            current = Transaction(xid)
        elif data.startswith("COMMIT"):
            done.append(current)
        elif data.startswith("message:"):
            current.has_messages = current.has_messages or "transactional: 1" in data
        else:
            current.changes += _changes(data)
    return done


def _changes(line: str) -> list[Seen]:
    truncated = _TRUNCATE.match(line)
    if truncated:
        names = [quoted.replace('""', '"') or plain for quoted, plain in _NAME.findall(truncated["tables"])]
        return [Seen(name, "TRUNCATE", {}, {}) for name in names]
    change = parse(line)
    assert change is not None, f"test_decoding said something unknown: {line[:40]}"
    assert change.kind in _KINDS
    unchanged = frozenset(name for name, value in change.new.items() if value is UNCHANGED)
    new: dict[str, Any] = {name: value for name, value in change.new.items() if name not in unchanged}
    old: dict[str, Any] = dict(change.old)
    table = change.table.removeprefix("public.")
    return [Seen(tables.ROOTS.get(table, table), change.kind, new, old, unchanged)]
