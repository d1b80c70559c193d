"""Gaps that a reader announces: what the oracle then lets a lane lack, and the notes that readers keep of them.

A lane may lack what commits below an announced gap only once it has passed the very epoch frame that announces it; and
where it had its place in the log, only what the log did not hold whole between that place and that frame. Rows of the
snapshot behind it are not modelled: that they come, and that none is older than a change, is tried with real servers.
"""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tidegate.contracts.ack import Ack
from tidegate.contracts.cursor import Cursor
from tidegate.contracts.epoch import EpochMode, decode_epoch
from tidegate.contracts.frame import FrameKind, decode_frame
from tidegate.contracts.snapshot_status import SnapshotKind
from tidegate.lsn import Lsn
from tidegate.position import Position
from tidegate_reader.snapshot.records import SnapshotRecord
from tidegate_reader.snapshot.store import Kept

if TYPE_CHECKING:
    from chaos.simulator.kafka import RawTopic, Record
    from chaos.simulator.oracle import LaneLedger, Oracle
    from chaos.simulator.postgres import Committed


@dataclass(frozen=True, slots=True)
class Announced:
    topic: tuple[str, bool]
    epoch: int
    lsn: Lsn
    spans: tuple[tuple[int, Position, Position], ...]
    """Offset, first and last position of what the log held before it."""


@dataclass(slots=True)
class Notes:
    records: dict[tuple[str, str], SnapshotRecord] = field(default_factory=dict)

    def write(self, generation: str, record: SnapshotRecord) -> None:
        self.records[generation, record.id] = record

    def kept(self, generation: str) -> Kept:
        return Kept({id_: each for (owner, id_), each in self.records.items() if owner == generation})

    def announced(self, generation: str) -> None:
        """As the snapshots of an epoch that has begun write down."""
        for (owner, id_), each in list(self.records.items()):
            if owner == generation and each.kind is SnapshotKind.RESNAPSHOT:
                self.records[owner, id_] = replace(each, is_announced=True)


def announced_by(record: "Record", topic: "RawTopic", oracle: "Oracle") -> Announced | None:
    if not record.is_valid or record.header.kind is not FrameKind.EPOCH:
        return None
    epoch = decode_epoch(decode_frame(record.value).body)
    if epoch.mode is not EpochMode.RESNAPSHOT:
        return None
    spans = (
        (each.offset, each.header.first, each.header.last)
        for each in topic.available()
        if each.is_valid and each.header.messages and each.offset < record.offset
    )
    return Announced(topic.life, record.header.epoch, epoch.start_lsn, tuple(spans))


def pass_gaps(lane: "LaneLedger", said: Cursor | Ack, topic: "RawTopic", oracle: "Oracle") -> None:
    """The lane has come so far: what it need not have any more. A frame without events is acked before its cursor is
    committed."""
    known, at = lane.place
    had_place = known == topic.life and at >= topic.beginning
    for gap in oracle.gaps:
        is_behind = gap.topic == topic.life and said.topic_id == topic.id and said.epoch >= gap.epoch
        if is_behind and gap not in lane.passed:
            ahead = [(first, last) for offset, first, last in gap.spans if had_place and offset >= at]
            below = (entry for entry in oracle.expected if entry.commit_lsn < gap.lsn)
            lane.excused |= {entry.commit_lsn for entry in below if not _is_whole(entry, ahead)}
            lane.passed.add(gap)
    if isinstance(said, Cursor):
        lane.place = ((said.topic_id, topic.was_wiped), said.next_offset)


def _is_whole(entry: "Committed", spans: list[tuple[Position, Position]]) -> bool:
    positions = (entry.position(at) for at, change in enumerate(entry.changes) if change.relation is not None)
    return all(any(first <= position <= last for first, last in spans) for position in positions)
