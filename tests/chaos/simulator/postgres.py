"""A PostgreSQL of one database with one slot, as its logical walsender is seen from outside.

What is modelled, with its source in reliability.md (e): transactions interleave and commit in another order than their
changes were written; a transaction is skipped iff the start of its COMMIT record lies below the start point;
START_REPLICATION below confirmed_flush is silently forwarded, above it is obeyed; confirmed_flush and restart_lsn are
saved at a checkpoint and go back to it at a crash; keepalives carry sentPtr, which goes down just after a start;
Relation is sent once a session and when it changed; a dead client holds the slot until the server notices.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from chaos.simulator.faults import broken_link, refused

from tidegate.lsn import Lsn, format_lsn
from tidegate.pgoutput.encode import encode_message
from tidegate.pgoutput.messages import Begin, Commit, LogicalMessage, Relation
from tidegate.pgoutput.wire import Keepalive, XLogData, encode_envelope
from tidegate.position import Position

POSTGRES_START = 820_454_400_000_000
_RECORD_BYTES = 64


@dataclass(slots=True)
class Change:
    lsn: Lsn
    message: bytes
    relation: Relation | None
    """None for a logical message: it takes an ordinal and is no event."""
    mark: bytes
    """What the event must contain."""
    is_poison: bool = False


@dataclass(slots=True)
class Transaction:
    xid: int
    first_lsn: Lsn
    changes: list[Change] = field(default_factory=list)
    keys: set[tuple[int, int]] = field(default_factory=set)


@dataclass(slots=True)
class Committed:
    commit_lsn: Lsn
    end_lsn: Lsn
    xid: int
    time: int
    first_lsn: Lsn
    changes: list[Change]
    positions: tuple[Position, ...] = field(init=False)
    """Of its events; what takes an ordinal and is no event is left out."""

    def __post_init__(self) -> None:
        self.positions = tuple(self.position(at) for at, each in enumerate(self.changes) if each.relation is not None)

    def position(self, ordinal: int) -> Position:
        return Position(self.commit_lsn, ordinal)


@dataclass(slots=True)
class Loose:
    """A non-transactional logical message: sent between transactions, by its own LSN."""

    end_lsn: Lsn
    message: bytes


@dataclass(slots=True)
class Slot:
    name: str
    confirmed: Lsn
    restart: Lsn
    saved: tuple[Lsn, Lsn]
    born: Lsn
    synced: bool = False


class Server:
    def __init__(self, system: int, timeline: int, wal_end: int, name: str) -> None:
        self.system, self.timeline, self.database = system, timeline, name
        self.left: tuple[tuple[int, Lsn], ...] = ()
        """The timelines before, each with the LSN at which it was left: the history file."""
        self.tells = frozenset({timeline})
        """Timelines of which everything that anybody has read is in this server's history, too."""
        self.wal_end = Lsn(wal_end)
        self.wal: list[Committed | Loose] = []
        self._ends: list[int] = []
        self.open: dict[int, Transaction] = {}
        self.slot: Slot | None = None
        self.sender: Walsender | None = None
        self.is_up = True
        self.crashes = 0
        """Each ends every connection, also those that say nothing."""
        self._xid = 700
        self._clock = POSTGRES_START

    def record(self, size: int = _RECORD_BYTES) -> Lsn:
        """The start of a new WAL record."""
        start = self.wal_end
        self.wal_end = Lsn(start + size)
        return start

    def begin(self) -> Transaction:
        self._xid += 1
        transaction = Transaction(self._xid, self.wal_end)
        self.open[self._xid] = transaction
        return transaction

    def commit(self, transaction: Transaction) -> Committed:
        del self.open[transaction.xid]
        self._clock += 1_000
        start = self.record()
        done = Committed(
            start, self.wal_end, transaction.xid, self._clock, transaction.first_lsn, list(transaction.changes)
        )
        if done.changes:  # from 15 on nothing is sent for an empty transaction
            self._append(done)
        return done

    def roll_back(self, transaction: Transaction) -> None:
        del self.open[transaction.xid]
        self.record()

    def loose_message(self, content: bytes) -> None:
        lsn = self.record()
        self._append(Loose(self.wal_end, encode_message(LogicalMessage(0, lsn, "app", content))))

    def _append(self, entry: Committed | Loose) -> None:
        self.wal.append(entry)
        self._ends.append(entry.end_lsn)

    def first_behind(self, lsn: int) -> int:
        return bisect_right(self._ends, lsn)

    def go_on_from(self, older: "Server", kept: Sequence[Committed | Loose]) -> None:
        """An older state: xids are given again, while time has gone on."""
        for entry in kept:
            self._append(entry)
        self.left = older.left
        if self.timeline != older.timeline:
            self.left += ((older.timeline, self.wal_end),)
        self._xid = max((entry.xid for entry in kept if isinstance(entry, Committed)), default=self._xid)
        self._clock = older._clock + 1_000

    def promote_again(self) -> None:
        """Before anybody has read it: the timeline between is never seen."""
        self.left += ((self.timeline, self.wal_end),)
        self.timeline += 1
        self.tells |= {self.timeline}

    def create_slot(self, name: str) -> Slot:
        here = self.wal_end
        self.slot = Slot(name, here, here, (here, here), here)
        return self.slot

    def checkpoint(self) -> None:
        if self.slot is not None:
            self.slot.saved = (self.slot.confirmed, self.slot.restart)

    def confirm(self, flush: Lsn) -> None:
        slot = self.slot
        if slot is None or flush <= slot.confirmed:
            return
        slot.confirmed = flush
        needed = [t.first_lsn for t in self.open.values()]
        needed += [e.first_lsn for e in self.wal[self.first_behind(flush) :][:8] if isinstance(e, Committed)]
        slot.restart = Lsn(max(slot.restart, min([flush, *needed])))

    def crash(self) -> None:
        """Everything that was sent had been flushed; what was not committed is gone; the slot is as last saved."""
        self.drop_link()
        self.crashes += 1
        self.open.clear()
        self.wal_end = Lsn(self.wal_end + 8)
        if self.slot is not None:
            self.slot.confirmed, self.slot.restart = self.slot.saved

    def drop_link(self) -> None:
        if self.sender is not None:
            self.sender.is_alive = False
            self.sender = None

    def start(self, requested: Lsn) -> "Walsender":
        if not self.is_up:
            raise broken_link()
        if self.slot is None:
            raise refused("START_REPLICATION", "42704", "replication slot does not exist")
        if self.sender is not None:
            raise refused("START_REPLICATION", "55006", "replication slot is active")
        self.sender = Walsender(self, self.slot, requested)
        return self.sender


class Walsender:
    """Decodes from restart_lsn and sends what commits at or behind the start point."""

    _MOST_QUEUED = 120

    def __init__(self, server: Server, slot: Slot, requested: Lsn) -> None:
        self.is_alive = True
        self.out: deque[bytes] = deque()
        self.statuses: deque[bytes] = deque()
        self.flushed = Lsn(0)
        self._server, self._slot = server, slot
        self.start_point = max(slot.confirmed, requested)
        self._at = server.first_behind(slot.restart)
        self._described: dict[int, bytes] = {}
        self._sent = slot.confirmed
        self.keepalive(reply=False)
        self._sent = slot.restart

    def keepalive(self, *, reply: bool) -> None:
        self.out.append(encode_envelope(Keepalive(self._sent, 0, reply)))

    def decode(self, entries: int) -> None:
        wal = self._server.wal
        while entries and self._at < len(wal) and len(self.out) < self._MOST_QUEUED:
            entry = wal[self._at]
            self._at += 1
            entries -= 1
            if isinstance(entry, Loose):
                self._data(Lsn(entry.end_lsn - _RECORD_BYTES), entry.message)
            elif entry.commit_lsn >= self.start_point:
                self._transaction(entry)
            self._sent = entry.end_lsn
        if self._at == len(wal):
            self._sent = self._server.wal_end

    @property
    def is_caught_up(self) -> bool:
        return self._at == len(self._server.wal)

    def _transaction(self, entry: Committed) -> None:
        begin = Begin(entry.commit_lsn, entry.time, entry.xid)
        self._data(entry.changes[0].lsn, encode_message(begin))
        for change in entry.changes:
            relation = change.relation
            if relation is not None:
                described = encode_message(relation)
                if self._described.get(relation.relation_id) != described:
                    self._described[relation.relation_id] = described
                    self._data(Lsn(0), described)
            self._data(change.lsn, change.message)
            if len(self.out) % 7 == 0:  # while it writes, the server keeps us alive with what it had sent before
                self.keepalive(reply=False)
        self._data(entry.end_lsn, encode_message(Commit(entry.commit_lsn, entry.end_lsn, entry.time)))

    def _data(self, lsn: Lsn, message: bytes) -> None:
        self.out.append(encode_envelope(XLogData(lsn, lsn, 0, message)))

    def __str__(self) -> str:
        return f"start {format_lsn(self.start_point)} sent {format_lsn(self._sent)}"
