"""What a reader finds when it starts, made by hand: a raw topic's end, a slot, acks."""

from tidegate.contracts.ack import Ack
from tidegate.contracts.frame import FrameHeader, FrameKind
from tidegate.contracts.generation import Generation
from tidegate.lsn import Lsn
from tidegate.position import BEGINNING, Position, before
from tidegate_reader.raw_log import RawLog
from tidegate_reader.resume import SlotStart
from tidegate_reader.tail import Tail

GENERATION = Generation(7, 1, "shop", "slot", b"n" * 16)
TAIL = Tail(GENERATION, 4, b"e" * 16, 10, 30, 40, Position(Lsn(500), 2), Lsn(540))
SLOT = SlotStart(confirmed=Lsn(300), started=Lsn(0), wal_end=Lsn(10_000), created=False)


def log(first: Position = BEGINNING, beginning: int = 0) -> RawLog:
    header = FrameHeader(FrameKind.EPOCH, GENERATION, 1, b"e" * 16, 0, 0, first, first, Lsn(0), 0)
    return RawLog(beginning, 41, header, TAIL)


def acks(**safe: int) -> dict[str, Ack]:
    return {
        sink: Ack(sink, GENERATION.id, 4, "topic", offset, before(Lsn(lsn)), Lsn(lsn), 0)
        for offset, (sink, lsn) in enumerate(safe.items(), 20)
    }
