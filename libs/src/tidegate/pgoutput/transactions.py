"""Which message may follow which, and the position of every change. The whole grammar is the table below.

| message                         | idle        | transaction | stream block | preparing |
| ------------------------------- | ----------- | ----------- | ------------ | --------- |
| Begin                           | transaction |             |              |           |
| BeginPrepare                    | preparing   |             |              |           |
| StreamStart                     | stream      |             |              |           |
| Insert Update Delete Truncate   |             | same        | same         | same      |
| Message, transactional          |             | same        | same         | same      |
| Message, not transactional      | same        |             |              |           |
| Relation Type Origin            |             | same        | same         | same      |
| Commit                          |             | idle        |              |           |
| StreamStop                      |             |             | idle         |           |
| Prepare                         |             |             |              | idle      |
| StreamCommit StreamAbort        | same        |             |              |           |
| StreamPrepare                   | same        |             |              |           |
| CommitPrepared RollbackPrepared | same        |             |              |           |

Whatever is empty is a DecodeError, and after one nothing is taken any more.

Ordinals count changes and transactional messages from 0; the commit stands at their number. A streamed or prepared
change has no position yet: it gets (commit LSN, its number among the survivors of aborted subtransactions) when its
transaction commits, so a transaction has the same positions whether it was streamed or not.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NoReturn

from tidegate.errors import DecodeError
from tidegate.lsn import Lsn
from tidegate.pgoutput.messages import (
    Begin,
    BeginPrepare,
    Commit,
    CommitPrepared,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    Origin,
    Prepare,
    Relation,
    RollbackPrepared,
    StreamAbort,
    StreamCommit,
    StreamPrepare,
    StreamStart,
    StreamStop,
    Truncate,
    Type,
    Update,
)
from tidegate.position import Position


class State(StrEnum):
    IDLE = "idle"
    TRANSACTION = "transaction"
    STREAM = "stream block"
    PREPARING = "preparing"
    BROKEN = "broken"


class _Untied(LogicalMessage):
    """In the table only: a message that is not transactional."""


_CHANGES: Final = (Insert, Update, Delete, Truncate, LogicalMessage)
_ASIDE: Final = (Relation, Type, Origin)


def _inside(state: State, end: type[Message]) -> dict[type[Message], State]:
    return {**dict.fromkeys((*_CHANGES, *_ASIDE), state), end: State.IDLE}


_NEXT: Final[dict[State, dict[type[Message], State]]] = {
    State.IDLE: {
        Begin: State.TRANSACTION,
        BeginPrepare: State.PREPARING,
        StreamStart: State.STREAM,
        **dict.fromkeys(
            (_Untied, StreamCommit, StreamAbort, StreamPrepare, CommitPrepared, RollbackPrepared), State.IDLE
        ),
    },
    State.TRANSACTION: _inside(State.TRANSACTION, Commit),
    State.STREAM: _inside(State.STREAM, StreamStop),
    State.PREPARING: _inside(State.PREPARING, Prepare),
    State.BROKEN: {},
}


@dataclass(slots=True)
class _Streamed:
    """Changes so far by subtransaction; an aborted one stays known, so that its changes can be told apart."""

    changes: dict[int, int] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)

    def survivors(self) -> int:
        return sum(number for xid, number in self.changes.items() if xid not in self.aborted)


class Transactions:
    """Feed every decoded message to `place`, in order; one object lives as long as one replication session."""

    def __init__(self) -> None:
        self.state = State.IDLE
        self.begin: Begin | None = None
        """The open transaction, or the last one."""
        self.ordinal = 0
        """Of the next change of the open transaction."""
        self._prepare: BeginPrepare | None = None
        self._stream_xid = 0
        self._streamed: dict[int, _Streamed] = {}
        self._prepared: dict[str, int] = {}
        self._last_commit = Lsn(0)

    @property
    def in_stream(self) -> bool:
        """What `decode_message` has to be told about the next message."""
        return self.state is State.STREAM

    def resume(self, begin: Begin, ordinal: int) -> None:
        """Start inside a transaction, as a frame does that was cut there."""
        if self.state is not State.IDLE:
            self._refuse(f"a transaction cannot be resumed in state {self.state}")
        self.state, self.begin, self.ordinal = State.TRANSACTION, begin, ordinal

    def aborted(self, xid: int) -> frozenset[int]:
        """The subtransactions of a streamed transaction whose changes are void; ask before its commit is placed."""
        streamed = self._streamed.get(xid)
        return frozenset(streamed.aborted) if streamed is not None else frozenset()

    def place(self, message: Message) -> Position | None:
        """The message's position; None for what has none, or none yet."""
        kind = type(message)
        if kind is LogicalMessage and not message.transactional:  # type: ignore[union-attr]
            kind = _Untied
        following = _NEXT[self.state].get(kind)
        if following is None:
            self._refuse(f"{type(message).__name__} in state {self.state}")
        position = self._count(message) if isinstance(message, _CHANGES) else self._control(message)
        self.state = following
        return position

    def _count(self, change: Insert | Update | Delete | Truncate | LogicalMessage) -> Position | None:
        if self.state is State.STREAM:
            changes = self._streamed[self._stream_xid].changes
            xid = change.xid if change.xid is not None else self._stream_xid
            changes[xid] = changes.get(xid, 0) + 1
            return None
        if self.state is State.IDLE:
            return None
        ordinal = self.ordinal
        self.ordinal += 1
        if self.state is State.PREPARING or self.begin is None:
            return None
        return Position(self.begin.commit_lsn, ordinal)

    def _control(self, message: Message) -> Position | None:
        match message:
            case Begin():
                self._ahead(message.commit_lsn)
                self.begin, self.ordinal = message, 0
            case Commit():
                return self._commit(message)
            case StreamStart() | StreamCommit() | StreamAbort() | StreamPrepare():
                return self._stream(message)
            case BeginPrepare() | Prepare() | CommitPrepared() | RollbackPrepared():
                return self._two_phase(message)
            case _:
                pass
        return None

    def _commit(self, message: Commit) -> Position:
        begin = self.begin
        if begin is None or (begin.commit_lsn, begin.commit_time) != (message.commit_lsn, message.commit_time):
            self._refuse("a Commit that is not of the transaction that began")
        return self._end(message.commit_lsn, self.ordinal)

    def _stream(self, message: StreamStart | StreamCommit | StreamAbort | StreamPrepare) -> Position | None:
        streamed = self._streamed.get(message.xid)
        if isinstance(message, StreamStart):
            if message.first_segment is not (streamed is None):
                self._refuse("a first block of a known streamed transaction, or a later one of an unknown")
            self._stream_xid = message.xid
            self._streamed.setdefault(message.xid, _Streamed())
            return None
        if streamed is None:
            self._refuse(f"{type(message).__name__} of a transaction that was not streamed")
        if isinstance(message, StreamAbort) and message.subxid != message.xid:
            streamed.aborted.add(message.subxid)
            return None
        del self._streamed[message.xid]
        if isinstance(message, StreamCommit):
            self._ahead(message.commit_lsn)
            return self._end(message.commit_lsn, streamed.survivors())
        if isinstance(message, StreamPrepare):
            self._prepared[message.gid] = streamed.survivors()
        return None

    def _two_phase(self, message: BeginPrepare | Prepare | CommitPrepared | RollbackPrepared) -> Position | None:
        match message:
            case BeginPrepare():
                self._prepare, self.ordinal = message, 0
            case Prepare():
                begun = self._prepare
                if begun is None or (begun.xid, begun.gid) != (message.xid, message.gid):
                    self._refuse("a Prepare that is not of the transaction that began")
                self._prepared[message.gid] = self.ordinal
            case RollbackPrepared():
                self._prepared.pop(message.gid, None)
            case CommitPrepared():
                self._ahead(message.commit_lsn)
                # Unknown when its Prepare came in an earlier session: legal, and its rows were counted there.
                changes = self._prepared.pop(message.gid, None)
                self._last_commit = message.commit_lsn
                return None if changes is None else Position(message.commit_lsn, changes)
        return None

    def _end(self, commit_lsn: Lsn, changes: int) -> Position:
        self._last_commit = commit_lsn
        return Position(commit_lsn, changes)

    def _ahead(self, commit_lsn: Lsn) -> None:
        if commit_lsn <= self._last_commit:
            self._refuse("a commit at or before the last one")

    def _refuse(self, reason: str) -> NoReturn:
        self.state = State.BROKEN
        raise DecodeError(reason, code="DECODE_ILLEGAL_ORDER")
