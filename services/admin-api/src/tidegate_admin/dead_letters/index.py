"""The index of a dead letter topic, on disk: what lists need, and where in the topic the rest is.

A list is fetched as one row of JSON: at each row the thread that asks gives way to the loop, and would wait for it.

Invariant: it says what the topic says up to `next_offset`, whatever dies when: records and the place they end at are
written in one transaction. No payload and no key is in it, only a hash to find a key by.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

from tidegate.contracts.dead_letter import DeadLetter
from tidegate.contracts.resolution import Resolution, decode_record
from tidegate.errors import DecodeError
from tidegate.observability import logs
from tidegate_admin.dead_letters.entries import Chosen, Entry, Filter, key_hash
from tidegate_admin.frames.decoded import single_change
from tidegate_admin.frames.raw import Record

VERSION = 1
_log = logs.get("dead_letters")

# Every set of filters has its index: beside a lane with a million letters, one that has one is found at once.
_SCHEMA = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS place (
    version INTEGER, topic_id TEXT, next_offset INTEGER, unreadable INTEGER, letters INTEGER
);
CREATE TABLE IF NOT EXISTS letters (
    offset INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, lane TEXT NOT NULL, code TEXT NOT NULL, channel TEXT NOT NULL,
    operation TEXT NOT NULL, commit_lsn TEXT NOT NULL, ordinal INTEGER NOT NULL, time INTEGER NOT NULL,
    found INTEGER NOT NULL, message TEXT NOT NULL, remedy TEXT NOT NULL, frame_offset INTEGER NOT NULL, key BLOB
);
CREATE INDEX IF NOT EXISTS by_time ON letters (time);
CREATE INDEX IF NOT EXISTS by_lane ON letters (lane, time);
CREATE INDEX IF NOT EXISTS by_code ON letters (code, time);
CREATE INDEX IF NOT EXISTS by_lane_code ON letters (lane, code, time);
CREATE INDEX IF NOT EXISTS by_channel ON letters (channel, time);
CREATE INDEX IF NOT EXISTS by_channel_code ON letters (channel, code, time);
CREATE INDEX IF NOT EXISTS by_lane_channel ON letters (lane, channel, time);
CREATE INDEX IF NOT EXISTS by_lane_channel_code ON letters (lane, channel, code, time);
CREATE INDEX IF NOT EXISTS by_key ON letters (key, time);
CREATE TABLE IF NOT EXISTS counts (
    lane TEXT, code TEXT, channel TEXT, letters INTEGER NOT NULL, PRIMARY KEY (lane, code, channel)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_letters ON counts (letters);
"""
_COLUMNS = "offset, id, lane, code, channel, operation, commit_lsn, ordinal, time, found, message, remedy, frame_offset"

_CHOSEN = "id, lane, time, offset, channel, hex(key), commit_lsn, ordinal"


class Index:
    """Calls block for as long as the disk does: they are made from threads. Who asks does not wait for who writes."""

    def __init__(self, path: Path) -> None:
        self._lock, self._looking = Lock(), Lock()
        self._path = path
        self._base = self._opened()
        self._view = self._connected()

    @property
    def next_offset(self) -> int:
        with self._looking:
            return int(self._view.execute("SELECT next_offset FROM place").fetchone()[0])

    def belongs_to(self, topic_id: str, end: int) -> bool:
        with self._looking:
            known, reached = self._view.execute("SELECT topic_id, next_offset FROM place").fetchone()
        return bool(known == topic_id and reached <= end)

    def begin_anew(self, topic_id: str) -> None:
        with self._changing() as base:
            for table in ("letters", "counts", "place"):
                base.execute(f"DELETE FROM {table}")  # noqa: S608 - constants
            base.execute("INSERT INTO place VALUES (?, ?, 0, 0, 0)", [VERSION, topic_id])

    def take(self, records: Sequence[Record]) -> None:
        with self._changing() as base:
            for record in records:
                self._take_one(base, record)
            base.execute("UPDATE place SET next_offset = ?", [records[-1].offset + 1])

    def settle(self) -> None:
        """After many records: what the planner has to know to choose among indexes, which it reads when it opens."""
        with self._lock:
            self._base.execute("PRAGMA analysis_limit = 1000")
            self._base.execute("ANALYZE")
        with self._looking:
            self._view.close()
            self._view = self._connected()

    def page(self, wanted: Filter, before: tuple[int, int], limit: int) -> list[Entry]:
        """Newest first. `before`: time and offset of the last one that is known."""
        if wanted.until is not None:  # one bound, not two: the index is entered at the lower one
            before, wanted = min(before, (wanted.until, -1)), replace(wanted, until=None)
        where, values = wanted.where()
        place = "WHERE (time, offset) < (?, ?)"
        query = f"SELECT {_COLUMNS} FROM letters {place}{where} ORDER BY time DESC, offset DESC LIMIT ?"  # noqa: S608 - constants
        with self._looking:
            return [Entry(*row) for row in _listed(self._view, _COLUMNS, query, [*before, *values, limit])]

    def get(self, identity: str) -> Entry | None:
        with self._looking:
            row = self._view.execute(f"SELECT {_COLUMNS} FROM letters WHERE id = ?", [identity]).fetchone()  # noqa: S608
        return Entry(*row) if row else None

    def counts(self) -> list[tuple[str, str, str, int]]:
        with self._looking:
            query = "SELECT * FROM counts WHERE letters > 0 ORDER BY letters DESC LIMIT 1000"
            return [tuple(row) for row in _listed(self._view, "lane, code, channel, letters", query, [])]

    def total(self) -> int:
        with self._looking:
            return int(self._view.execute("SELECT letters FROM place").fetchone()[0])

    def ids(self, wanted: Filter, limit: int) -> list[str]:
        where, values = wanted.where()
        query = f"SELECT id FROM letters WHERE time >= 0{where} ORDER BY time, offset LIMIT ?"  # noqa: S608 - constants
        with self._looking:
            return [row[0] for row in _listed(self._view, "id", query, [*values, limit])]

    def chosen(self, wanted: Filter, after: tuple[int, int], end: int, limit: int) -> list[Chosen]:
        """Oldest first, of those found before the offset `end`. `after`: time and offset of the last one known."""
        if wanted.since is not None:  # one bound, not two, as in `page`
            after, wanted = max(after, (wanted.since, -1)), replace(wanted, since=None)
        where, values = wanted.where()
        place = "WHERE (time, offset) > (?, ?) AND offset < ?"
        query = f"SELECT * FROM letters {place}{where} ORDER BY time, offset LIMIT ?"  # noqa: S608 - constants
        with self._looking:
            return [_chosen(row) for row in _listed(self._view, _CHOSEN, query, [*after, end, *values, limit])]

    def chosen_ids(self, identities: Iterable[str]) -> list[Chosen]:
        query = f"SELECT {_CHOSEN} FROM letters WHERE id = ?"  # noqa: S608 - constants
        with self._looking:
            rows = [self._view.execute(query, [each]).fetchone() for each in dict.fromkeys(identities)]
        return [_chosen(row) for row in rows if row]

    def known(self, identities: Iterable[str]) -> list[str]:
        with self._looking:
            found = "SELECT 1 FROM letters WHERE id = ?"
            return [each for each in dict.fromkeys(identities) if self._view.execute(found, [each]).fetchone()]

    def close(self) -> None:
        with self._looking, self._lock:
            self._view.close()
            self._base.close()

    def _take_one(self, base: sqlite3.Connection, record: Record) -> None:
        try:
            found = decode_record(record.value)
        except DecodeError as error:
            _log.failure("dead_letter_unreadable", error, offset=record.offset)
            base.execute("UPDATE place SET unreadable = unreadable + 1")
            return
        if isinstance(found, Resolution):
            for identity in found.ids if found.closes else ():
                _forget(base, identity)
        else:
            _keep(base, record.offset, found)

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._base.execute("BEGIN IMMEDIATE")
            try:
                yield self._base
            except BaseException:
                self._base.execute("ROLLBACK")
                raise
            self._base.execute("COMMIT")

    def _opened(self) -> sqlite3.Connection:
        """A file of another version, or one that is no index, is built anew: the topic has everything."""
        try:
            return self._try_open()
        except sqlite3.DatabaseError:
            for path in self._path.parent.glob(f"{self._path.name}*"):
                path.unlink()
            return self._try_open()

    def _connected(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)

    def _try_open(self) -> sqlite3.Connection:
        self._path.touch(mode=0o600)
        base = self._connected()
        try:
            base.executescript(_SCHEMA)
            row = base.execute("SELECT version FROM place").fetchone()
            if row is None:
                base.execute("INSERT INTO place VALUES (?, '', 0, 0, 0)", [VERSION])
            elif row[0] != VERSION:
                raise sqlite3.DatabaseError("another version")
        except sqlite3.Error:
            base.close()
            raise
        return base


def _listed(base: sqlite3.Connection, columns: str, query: str, values: Sequence[Any]) -> list[list[Any]]:
    """`columns` of the rows of `query`, in its order, which keeps to it as it has a limit."""
    row = base.execute(f"SELECT json_group_array(json_array({columns})) FROM ({query})", values).fetchone()  # noqa: S608 - constants
    found: list[list[Any]] = json.loads(row[0])
    return found


def _chosen(row: Sequence[Any]) -> Chosen:
    identity, lane, time, offset, channel, key, commit_lsn, ordinal = row
    kin = channel.encode() + b"\0" + bytes.fromhex(key)
    return Chosen(identity, lane, time, offset, kin, (commit_lsn, ordinal))


def _keep(base: sqlite3.Connection, offset: int, letter: DeadLetter) -> None:
    """Found again, it is the same one: it stands where it was found last, and counts how often."""
    before = base.execute("SELECT found FROM letters WHERE id = ?", [letter.id]).fetchone()
    if before:
        _forget(base, letter.id)
    base.execute(
        "INSERT INTO letters VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            offset, letter.id, letter.lane, letter.code, letter.channel, letter.operation,
            f"{letter.position.commit_lsn:016x}", letter.position.ordinal, letter.time,
            before[0] + 1 if before else 1, letter.message, letter.remedy, letter.frame.offset, _key_of(letter),
        ],
    )  # fmt: skip
    base.execute(
        "INSERT INTO counts VALUES (?, ?, ?, 1) ON CONFLICT DO UPDATE SET letters = letters + 1",
        [letter.lane, letter.code, letter.channel],
    )
    base.execute("UPDATE place SET letters = letters + 1")


def _forget(base: sqlite3.Connection, identity: str) -> None:
    row = base.execute("DELETE FROM letters WHERE id = ? RETURNING lane, code, channel", [identity]).fetchone()
    if row:
        base.execute("UPDATE place SET letters = letters - 1")
        base.execute("UPDATE counts SET letters = letters - 1 WHERE lane = ? AND code = ? AND channel = ?", row)


def _key_of(letter: DeadLetter) -> bytes | None:
    try:
        change = single_change(letter.payload, letter.schema, letter.position)
    except DecodeError:
        return None
    row = change.row or change.old
    if row is None or not change.key or len(change.tables) != 1:
        return None
    return key_hash(change.tables[0], {name: row.get(name) for name in change.key})
