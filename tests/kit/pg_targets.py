"""Messages of a source's tables delivered to real targets, in one frame."""

from dataclasses import replace
from typing import Any

from kit.frames import ORDERS, RawLog, row
from kit.made_frames import frame_of
from kit.sink_rigs import PgTableRig, cursor_behind, wal_frames

from tidegate.lsn import Lsn
from tidegate.pgoutput.messages import Begin, Column, Relation
from tidegate.position import BEGINNING
from tidegate_processor.sinks.base import Receipt
from tidegate_processor.speaking import Speak, nobody_listens

INT4, TEXT = 23, 25


def relation(*columns: Column, name: str = "orders", schema: str = "public", **more: Any) -> Relation:
    return replace(ORDERS, namespace=schema, name=name, columns=columns, **more)


KEYED = Column(1, "id", INT4, -1), Column(0, "note", TEXT, -1)


def deliver(
    rig: PgTableRig, relations: list[Relation], messages: list[Any], speak: Speak = nobody_listens, **options: Any
) -> Receipt:
    sink = rig.make(rig.configured(**options), speak)
    try:
        sink.open()
        receipt = sink.write(frame_of(relations, [Begin(Lsn(9), 5, 7), *messages]), BEGINNING)
        log = RawLog()
        log.epoch()
        log.transaction(row(1))
        sink.commit(cursor_behind(wal_frames(log)[0]))
    finally:
        sink.close()
    return receipt
