"""What is written into the source: the same rows in the same transactions each time, whoever reads them.

Invariant: every change bears a number `n` of its own, 0 to `events` - 1, rising for each key in commit order, so that a
reader of events can tell what was lost, doubled or overtaken. A delete shows no `n` of its own: its number follows from
its key.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

SEED = 20_261
ROWS_A_TRANSACTION = 10_000
TABLES = 1_000
DOCUMENT_CHUNKS = 256
"""Of 32 characters each: far above the 2 kB at which a value goes out of line."""
REWRITE_EACH = 10
DELETE_EACH = 4


class Size(StrEnum):
    QUICK = "quick"
    USUAL = "usual"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    about: str
    tables: tuple[str, ...]
    schema: str
    events: int
    writes: tuple[str, ...]
    """Each is a transaction, or a block that commits by itself."""
    before: tuple[str, ...] = ()
    """Written while nobody listens."""
    repeats_keys: bool = False
    deletes_from: int = 0

    def number_of_delete(self, key: int) -> int:
        return self.deletes_from + key // DELETE_EACH


def chunks(rows: int, at_once: int) -> Iterator[tuple[int, int]]:
    """First and last of each run."""
    for first in range(0, rows, at_once):
        yield first, min(first + at_once, rows) - 1


def narrow(rows: int, rows_a_transaction: int = ROWS_A_TRANSACTION, name: str = "narrow") -> Workload:
    values = f"g, g, (g * 7919 + {SEED}) % 1000003, g % 97"
    insert = f"INSERT INTO {name} SELECT {values} FROM generate_series({{}}::bigint, {{}}) g"
    return Workload(
        name=name,
        about=f"{rows:,} inserts of four numbers, {min(rows_a_transaction, rows):,} a transaction",
        tables=(name,),
        schema=f"CREATE TABLE {name} (id bigint PRIMARY KEY, n bigint, a int, b int);",
        events=rows,
        writes=tuple(insert.format(*chunk) for chunk in chunks(rows, rows_a_transaction)),
    )


def huge(rows: int) -> Workload:
    return narrow(rows, rows_a_transaction=rows, name="huge")


def wide(rows: int, texts: int = 4, rows_a_transaction: int = ROWS_A_TRANSACTION) -> Workload:
    """Ten columns and about 220 bytes a row on the wire, unless asked for other numbers of text columns."""
    more = "".join(f", s{at} text" for at in range(texts))
    lengths = ("md5({s} || g::text) || md5(g::text)", "md5({s} || g::text)", "'defghij' || g", "'abc'")
    values = "".join(f", {lengths[at % len(lengths)].format(s=SEED + at)}" for at in range(texts))
    insert = (
        "INSERT INTO wide SELECT g, g, (g % 1000) + 0.25, '2026-01-01Z'::timestamptz + g * interval '1 ms', g * 0.37,"
        f" g % 7 = 0{values} FROM generate_series({{}}::bigint, {{}}) g"
    )
    return Workload(
        name="wide",
        about=f"{rows:,} inserts of {6 + texts} columns, {min(rows_a_transaction, rows):,} a transaction",
        tables=("wide",),
        schema="CREATE TABLE wide (id bigint PRIMARY KEY, n bigint, price numeric(10, 2), at timestamptz, f float8,"
        f" paid bool{more});",
        events=rows,
        writes=tuple(insert.format(*chunk) for chunk in chunks(rows, rows_a_transaction)),
    )


def toast(updates: int) -> Workload:
    """Updates beside an 8 kB value that is left alone, and is written anew in every tenth transaction."""
    rows = max(100, min(2_000, updates // 20))
    rounds = max(1, updates // rows)
    document = f"(SELECT string_agg(md5('{SEED}:' || g || ':' || i), '') FROM generate_series(1, {DOCUMENT_CHUNKS}) i)"
    writes = (
        f"UPDATE toast SET n = {turn * rows} + id" + (", doc = reverse(doc)" if turn % REWRITE_EACH == 9 else "")
        for turn in range(rounds)
    )
    return Workload(
        name="toast",
        about=f"{rounds * rows:,} updates beside values of 8 kB, {rows:,} a transaction, a tenth of them rewrite it",
        tables=("toast",),
        schema="CREATE TABLE toast (id bigint PRIMARY KEY, n bigint, doc text);"
        "ALTER TABLE toast ALTER doc SET STORAGE EXTERNAL;",
        events=rounds * rows,
        writes=tuple(writes),
        repeats_keys=True,
        before=(f"INSERT INTO toast SELECT g, 0, {document} FROM generate_series(0, {rows - 1}) g",),
    )


def many_tables(rows: int, tables: int = TABLES) -> Workload:
    """Ten rows a transaction, into the tables in turn."""
    turns = max(1, rows // tables)
    write = f"""DO $$ BEGIN FOR turn IN 0..{turns - 1} LOOP FOR t IN 0..{tables - 1} LOOP
        EXECUTE format('INSERT INTO many_%s VALUES ($1, $2, $3)', t) USING turn, turn * {tables} + t, 'row ' || turn;
        IF (turn * {tables} + t) % 10 = 9 THEN COMMIT; END IF; END LOOP; END LOOP; END $$"""
    names = tuple(f"many_{at}" for at in range(tables))
    return Workload(
        name="tables",
        about=f"{turns * tables:,} inserts over {tables:,} tables, ten a transaction",
        tables=names,
        schema="".join(f"CREATE TABLE {name} (id bigint PRIMARY KEY, n bigint, note text);" for name in names),
        events=turns * tables,
        writes=(write,),
    )


def small(transactions: int) -> Workload:
    write = f"""DO $$ BEGIN FOR g IN 0..{transactions - 1} LOOP
        INSERT INTO small VALUES (g, g, 'a note of a usual length, number ' || g); COMMIT; END LOOP; END $$"""
    return Workload(
        name="small",
        about=f"{transactions:,} transactions of one row",
        tables=("small",),
        schema="CREATE TABLE small (id bigint PRIMARY KEY, n bigint, note text);",
        events=transactions,
        writes=(write,),
    )


def mixed(events: int) -> Workload:
    """Each row is inserted and updated, every fourth is deleted: in transactions of 300 changes and more."""
    rows = events * DELETE_EACH // (2 * DELETE_EACH + 1) // DELETE_EACH * DELETE_EACH
    writes: list[str] = []
    for first, last in chunks(rows, 100 * DELETE_EACH):
        within = f"id BETWEEN {first} AND {last}"
        note = f"md5('{SEED}' || g)"
        writes.append(f"INSERT INTO mixed SELECT g, g, {note}, g % 97 FROM generate_series({first}, {last}) g")
        writes.append(f"UPDATE mixed SET n = {rows} + id, note = note || '.' WHERE {within}")
        writes.append(f"DELETE FROM mixed WHERE {within} AND id % {DELETE_EACH} = 0")
    return Workload(
        name="mixed",
        about=f"{rows:,} inserts, as many updates, {rows // DELETE_EACH:,} deletes",
        tables=("mixed",),
        schema="CREATE TABLE mixed (id bigint PRIMARY KEY, n bigint, note text, b int);",
        events=2 * rows + rows // DELETE_EACH,
        writes=tuple(writes),
        repeats_keys=True,
        deletes_from=2 * rows,
    )


_ROWS = {
    "narrow": (100_000, 300_000, 1_000_000),
    "wide": (100_000, 3_000_000, 10_000_000),
    "toast": (10_000, 50_000, 200_000),
    "huge": (100_000, 1_000_000, 10_000_000),
    "tables": (20_000, 200_000, 500_000),
    "small": (20_000, 100_000, 300_000),
    "mixed": (30_000, 200_000, 500_000),
}
_MAKERS: dict[str, Callable[[int], Workload]] = {
    "narrow": narrow,
    "wide": wide,
    "toast": toast,
    "huge": huge,
    "tables": many_tables,
    "small": small,
    "mixed": mixed,
}
NAMES = tuple(_ROWS)


def workload(name: str, size: Size) -> Workload:
    return _MAKERS[name](_ROWS[name][list(Size).index(size)])


def kept_workload(name: str, events: int) -> Workload:
    """As a run had it that is kept: sizes change."""
    known = (_MAKERS[name](rows) for rows in _ROWS[name])
    return next((each for each in known if each.events == events), None) or _MAKERS[name](events)


WARM_TABLE = "warm"
LIVE_TABLE = "live"
ALWAYS = (WARM_TABLE, LIVE_TABLE)
ALWAYS_SCHEMA = "".join(f"CREATE TABLE {name} (id bigserial PRIMARY KEY, n bigint, note text);" for name in ALWAYS)


@dataclass(frozen=True, slots=True)
class Load:
    """Transactions by the clock, whatever is behind; the key counts them."""

    transactions_a_second: int
    rows_a_transaction: int
    seconds: int

    @property
    def name(self) -> str:
        return f"live {self.transactions_a_second:,}/s" + (
            f" of {self.rows_a_transaction}" if self.rows_a_transaction > 1 else ""
        )

    @property
    def script(self) -> str:
        """For pgbench."""
        return (
            f"INSERT INTO {LIVE_TABLE} (note) SELECT 'some text of a usual length'"
            f" FROM generate_series(1, {self.rows_a_transaction});\n"
        )


def loads(size: Size) -> tuple[Load, ...]:
    if size is Size.QUICK:
        return (Load(200, 1, 8),)
    seconds = 20 if size is Size.USUAL else 60
    return (Load(200, 1, seconds), Load(1_000, 1, seconds), Load(100, 100, seconds))
