"""Every message of pgoutput protocols 1 to 4 as a frozen value, named and ordered as on the wire.

Times are PostgreSQL's: microseconds since 2000-01-01 00:00 UTC. `xid` on a change is the (sub)transaction it belongs to
and is only there inside a streamed block. A column value is one of four: None (NULL), UNCHANGED (TOAST value not sent),
bytes (PostgreSQL's text), Binary (the type's binary form, when the session asked for it).
"""

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final, TypeAlias

from tidegate.lsn import Lsn

KEY_COLUMN: Final = 1
"""Column flag: part of the replica identity."""

CASCADE: Final = 1
RESTART_IDENTITY: Final = 2
TRANSACTIONAL: Final = 1


class Unchanged(Enum):
    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED


@dataclass(frozen=True, slots=True)
class Binary:
    data: bytes


Value: TypeAlias = bytes | Unchanged | Binary | None
Row: TypeAlias = tuple[Value, ...]


class ReplicaIdentity(StrEnum):
    DEFAULT = "d"
    NOTHING = "n"
    FULL = "f"
    INDEX = "i"


class OldKind(StrEnum):
    """Which old tuple an UPDATE or DELETE carries: the key columns only (the others are NULL), or the whole row."""

    KEY = "K"
    FULL = "O"


@dataclass(frozen=True, slots=True)
class Begin:
    commit_lsn: Lsn
    commit_time: int
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    commit_lsn: Lsn
    end_lsn: Lsn
    commit_time: int


@dataclass(frozen=True, slots=True)
class Origin:
    commit_lsn: Lsn
    name: str


@dataclass(frozen=True, slots=True)
class Column:
    flags: int
    name: str
    type_oid: int
    typmod: int

    @property
    def is_key(self) -> bool:
        return bool(self.flags & KEY_COLUMN)


@dataclass(frozen=True, slots=True)
class Relation:
    relation_id: int
    namespace: str
    name: str
    replica_identity: ReplicaIdentity
    columns: tuple[Column, ...]
    xid: int | None = None

    @property
    def schema(self) -> str:
        return self.namespace or "pg_catalog"


@dataclass(frozen=True, slots=True)
class Type:
    type_oid: int
    namespace: str
    name: str
    xid: int | None = None

    @property
    def schema(self) -> str:
        return self.namespace or "pg_catalog"


@dataclass(frozen=True, slots=True)
class Insert:
    relation_id: int
    new: Row
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class Update:
    relation_id: int
    old_kind: OldKind | None
    old: Row | None
    new: Row
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    relation_id: int
    old_kind: OldKind
    old: Row
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class Truncate:
    relation_ids: tuple[int, ...]
    options: int
    xid: int | None = None

    @property
    def cascade(self) -> bool:
        return bool(self.options & CASCADE)

    @property
    def restart_identity(self) -> bool:
        return bool(self.options & RESTART_IDENTITY)


@dataclass(frozen=True, slots=True)
class LogicalMessage:
    """From pg_logical_emit_message. If not transactional, it has no commit position and comes between transactions."""

    flags: int
    lsn: Lsn
    prefix: str
    content: bytes
    xid: int | None = None

    @property
    def transactional(self) -> bool:
        return bool(self.flags & TRANSACTIONAL)


@dataclass(frozen=True, slots=True)
class StreamStart:
    xid: int
    first_segment: bool


@dataclass(frozen=True, slots=True)
class StreamStop:
    pass


@dataclass(frozen=True, slots=True)
class StreamCommit:
    xid: int
    commit_lsn: Lsn
    end_lsn: Lsn
    commit_time: int


@dataclass(frozen=True, slots=True)
class StreamAbort:
    """subxid == xid drops the whole transaction. The last two are sent under streaming=parallel (protocol 4) only."""

    xid: int
    subxid: int
    abort_lsn: Lsn | None = None
    abort_time: int | None = None


@dataclass(frozen=True, slots=True)
class BeginPrepare:
    prepare_lsn: Lsn
    end_lsn: Lsn
    prepare_time: int
    xid: int
    gid: str


@dataclass(frozen=True, slots=True)
class Prepare:
    prepare_lsn: Lsn
    end_lsn: Lsn
    prepare_time: int
    xid: int
    gid: str


@dataclass(frozen=True, slots=True)
class CommitPrepared:
    commit_lsn: Lsn
    end_lsn: Lsn
    commit_time: int
    xid: int
    gid: str


@dataclass(frozen=True, slots=True)
class RollbackPrepared:
    prepare_end_lsn: Lsn
    rollback_end_lsn: Lsn
    prepare_time: int
    rollback_time: int
    xid: int
    gid: str


@dataclass(frozen=True, slots=True)
class StreamPrepare:
    prepare_lsn: Lsn
    end_lsn: Lsn
    prepare_time: int
    xid: int
    gid: str


Change: TypeAlias = Insert | Update | Delete | Truncate | LogicalMessage
"""What takes an ordinal."""

Message: TypeAlias = (
    Change
    | Begin
    | Commit
    | Origin
    | Relation
    | Type
    | StreamStart
    | StreamStop
    | StreamCommit
    | StreamAbort
    | BeginPrepare
    | Prepare
    | CommitPrepared
    | RollbackPrepared
    | StreamPrepare
)
