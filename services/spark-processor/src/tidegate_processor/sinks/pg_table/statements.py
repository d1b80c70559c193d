"""The commands of one target table. Every name in them went through `tidegate.quoting`.

Columns of the staging table have names of ours (`c0`, `c1`, …), so only the target's own need quoting.
"""
# ruff: noqa: S608 - values never stand in them: they are staged by COPY or are parameters.

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegate.quoting import identifier

DELETES, WRITES, FIRST_PATTERN = 0, 1, 2
"""Kinds of staged rows. From FIRST_PATTERN on: writes that leave columns alone, a number for each set of them."""


@dataclass(frozen=True, slots=True)
class Statements:
    table: str
    """Qualified and quoted."""
    columns: tuple[str, ...]
    """Of those that are written, quoted, in the order in which they are staged."""
    keys: tuple[int, ...]
    """Places in `columns`; empty where rows are only ever added."""
    stage: str

    @property
    def create_stage(self) -> str:
        """With the target's types, so that a value is judged while it is copied."""
        columns = "".join(f", t.{name} AS c{at}" for at, name in enumerate(self.columns))
        select = f"SELECT 0::int4 AS n, 0::int2 AS kind{columns} FROM {self.table} t"
        return f"CREATE TEMP TABLE {self.stage} AS {select} WITH NO DATA"

    @property
    def drop_stage(self) -> str:
        return f"DROP TABLE pg_temp.{self.stage}"

    @property
    def empty_stage(self) -> str:
        return f"TRUNCATE pg_temp.{self.stage}"

    @property
    def copy(self) -> str:
        return f"COPY pg_temp.{self.stage} FROM STDIN"

    @property
    def delete(self) -> str:
        return f"DELETE FROM {self.table} t USING pg_temp.{self.stage} s WHERE s.kind = {DELETES} AND {self._same_key}"

    @property
    def upsert(self) -> str:
        staged = ", ".join(f"s.c{at}" for at in range(len(self.columns)))
        select = f"SELECT {staged} FROM pg_temp.{self.stage} s WHERE s.kind = {WRITES} ORDER BY s.n"
        return f"{self._insert} {select}{self._on_conflict}"

    def update(self, kind: int, sent: Sequence[int]) -> str:
        """Says which staged rows it found."""
        settings = self._settings(sent, "s.c{}")
        where = f"s.kind = {kind} AND {self._same_key}"
        if not settings:
            return f"SELECT s.n FROM pg_temp.{self.stage} s JOIN {self.table} t ON {where}"
        return f"UPDATE {self.table} t SET {settings} FROM pg_temp.{self.stage} s WHERE {where} RETURNING s.n"

    @property
    def delete_one(self) -> str:
        return f"DELETE FROM {self.table} t WHERE {self._key_is(range(1, len(self.keys) + 1))}"

    @property
    def upsert_one(self) -> str:
        values = ", ".join(f"${at + 1}" for at in range(len(self.columns)))
        return f"{self._insert} VALUES ({values}){self._on_conflict}"

    def update_one(self, sent: Sequence[int]) -> str:
        """First the key as it was, then what was sent."""
        first = len(self.keys) + 1
        settings = ", ".join(f"{self.columns[at]} = ${first + turn}" for turn, at in enumerate(sent))
        where = self._key_is(range(1, first))
        if not settings:
            return f"SELECT 1 FROM {self.table} t WHERE {where}"
        return f"UPDATE {self.table} t SET {settings} WHERE {where}"

    @property
    def _insert(self) -> str:
        return f"INSERT INTO {self.table} AS t ({', '.join(self.columns)}) OVERRIDING SYSTEM VALUE"

    @property
    def _on_conflict(self) -> str:
        if not self.keys:
            return ""
        key = ", ".join(self.columns[at] for at in self.keys)
        settings = ", ".join(f"{name} = EXCLUDED.{name}" for name in self._others(range(len(self.columns))))
        return f" ON CONFLICT ({key}) DO {f'UPDATE SET {settings}' if settings else 'NOTHING'}"

    def _settings(self, sent: Sequence[int], form: str) -> str:
        return ", ".join(f"{self.columns[at]} = {form.format(at)}" for at in sent if at not in self.keys)

    def _others(self, places: Iterable[int]) -> list[str]:
        return [self.columns[at] for at in places if at not in self.keys]

    @property
    def _same_key(self) -> str:
        return " AND ".join(f"t.{self.columns[at]} = s.c{at}" for at in self.keys)

    def _key_is(self, parameters: Iterable[int]) -> str:
        pairs = zip(self.keys, parameters, strict=True)
        return " AND ".join(f"t.{self.columns[at]} = ${parameter}" for at, parameter in pairs)


def create_table(table: str, columns: Sequence[tuple[str, str]], keys: Sequence[str]) -> str:
    """Types as the server itself has written them."""
    parts = [f"{identifier(name)} {type_}" for name, type_ in columns]
    if keys:
        parts.append(f"PRIMARY KEY ({', '.join(map(identifier, keys))})")
    return f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(parts)})"


def add_column(table: str, name: str, type_: str) -> str:
    return f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {identifier(name)} {type_}"
