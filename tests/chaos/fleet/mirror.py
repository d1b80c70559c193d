"""O3: the tables once more, made of nothing but the events, as a consumer would keep them.

Invariant: an event is applied as the reference page of the event tells a consumer to; what the server did not send
(`unchanged`) stays as it is.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
from chaos.fleet import tables
from chaos.fleet.deliveries import Arrived
from psycopg import sql

Row = dict[str, Any]


class Mirror:
    def __init__(self) -> None:
        self._rows: dict[str, dict[Any, Row]] = {table: {} for table in tables.KEYS}
        self._whole: Counter[str] = Counter()
        """The rows of the table that has no key."""
        self._exempt: dict[str, set[Any]] = {table: set() for table in tables.KEYS}

    def exempt(self, table: str, row: Mapping[str, str | None]) -> None:
        """This row became a dead letter, and so may whatever is done to it later."""
        self._exempt[table].add(key_of(tables.KEYS[table], {name: tables.as_json(name, row[name]) for name in row}))

    def fill(self, dsn: str) -> None:
        """With what is there now."""
        for table, key in tables.KEYS.items():
            if key:
                self._rows[table] = {key_of(key, row): row for row in _source(dsn, table)}
            else:
                self._whole = Counter(text_of(row) for row in _source(dsn, table))

    def apply(self, arrived: Arrived) -> str | None:
        """What is wrong with it, if anything is."""
        payload, key = arrived.event["payload"], tables.KEYS[arrived.table]
        if arrived.is_row:
            return self._confirm(arrived.table, key, payload["row"])
        if arrived.kind == "TRUNCATE":
            self._rows[arrived.table].clear()
            return None
        if not key:
            return self._apply_whole(payload["old"], payload["row"])
        return self._apply_by_key(arrived, key, payload)

    def whole(self) -> Iterator[Row]:
        """Rows of the table that has no key, each as often as it is there."""
        for text in (+self._whole).elements():
            yield tables.parse(text)

    def standing(self, table: str) -> Iterator[tuple[Any, Row]]:
        exempt = self._exempt[table]
        return ((key, row) for key, row in self._rows[table].items() if key not in exempt)

    def _confirm(self, table: str, key: tuple[str, ...], row: Row) -> str | None:
        """A row that was there before: at its place in the stream it must be there, as it is by then."""
        if not key:
            return None if self._whole[text_of(row)] > 0 else f"{table}: a snapshot's row that is not there"
        identity = key_of(key, row)
        if identity in self._exempt[table]:
            return None
        known = self._rows[table].get(identity)
        if known is None:
            return f"{table}: a snapshot's row that is gone by then"
        wrong = sorted(name for name in known.keys() & row.keys() if known[name] != row[name])
        return f"{table}: a snapshot's row is older than a change before it, in {', '.join(wrong)}" if wrong else None

    def _apply_by_key(self, arrived: Arrived, key: tuple[str, ...], payload: dict[str, Any]) -> str | None:
        rows, old, new = self._rows[arrived.table], payload["old"], payload["row"]
        before = key_of(key, old or new)
        known = rows.pop(before, None)
        exempt = self._exempt[arrived.table]
        if before in exempt:
            exempt.update([key_of(key, new)] if new is not None else [])
            return None
        if arrived.kind == "INSERT" and known is not None:
            return f"{arrived.table}: an INSERT of a row that is there"
        if arrived.kind in ("UPDATE", "DELETE") and known is None:
            return f"{arrived.table}: {arrived.kind} of a row that is not there"
        if new is not None:
            kept = {name: (known or {}).get(name) for name in payload.get("unchanged", ())}
            rows[key_of(key, new)] = {**kept, **new}
        return None

    def _apply_whole(self, old: Row | None, new: Row | None) -> str | None:
        for row, change in ((old, -1), (new, 1)):
            if row is not None:
                self._whole[text_of(row)] += change
        return None

    def balance(self) -> int:
        return sum(int(row["balance"].digits) for row in self._rows["accounts"].values())

    def differences(self, dsn: str) -> Iterator[str]:
        for table, key in tables.KEYS.items():
            if key:
                yield from self._differing(table, {key_of(key, row): row for row in _source(dsn, table)})
            else:
                whole = Counter(text_of(row) for row in _source(dsn, table))
                if whole != +self._whole:
                    missing, extra = whole - self._whole, self._whole - whole
                    yield f"{table}: {missing.total()} rows missing, {extra.total()} too many"

    def _differing(self, table: str, source: dict[Any, Row]) -> Iterator[str]:
        """Of a row as old as the column before an ALTER TABLE only what both know is compared."""
        mine = self._rows[table]
        if missing := source.keys() - mine.keys() - self._exempt[table]:
            yield f"{table}: {len(missing)} rows missing"
        if extra := mine.keys() - source.keys():
            yield f"{table}: {len(extra)} rows too many"
        for key in source.keys() & mine.keys():
            here, there = mine[key], source[key]
            wrong = sorted(name for name in here.keys() & there.keys() if here[name] != there[name])
            if wrong:
                yield f"{table}: a row differs in {', '.join(wrong)}"


def _source(dsn: str, table: str) -> Iterator[Row]:
    with psycopg.connect(dsn, autocommit=True) as link:
        link.execute("SET bytea_output = hex")
        link.execute("SET timezone = 'UTC'")
        columns = link.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
            " ORDER BY attnum",
            [sql.Identifier(table).as_string(link)],
        ).fetchall()
        shown = sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(name)) for (name,) in columns)
        for row in link.execute(sql.SQL("SELECT {} FROM {}").format(shown, sql.Identifier(table))):
            yield {name: tables.as_json(name, text) for (name,), text in zip(columns, row, strict=True)}


def key_of(columns: tuple[str, ...], row: Row) -> Any:
    return tuple(row[column] for column in columns)


def text_of(row: Row) -> str:
    return json.dumps(row, sort_keys=True)
