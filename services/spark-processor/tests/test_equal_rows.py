"""Rows that are equal in every column, of a table whose whole row is its key: nothing tells them apart."""

from dataclasses import replace

import pytest
from kit.frames import ORDERS, RawLog, row
from kit.memory_sink import MemorySink, delivery_into

from tidegate.events import Operation
from tidegate.pgoutput.messages import KEY_COLUMN, Delete, Insert, OldKind, ReplicaIdentity, Update

WHOLE = replace(
    ORDERS,
    relation_id=ORDERS.relation_id + 1,
    name="whole",
    replica_identity=ReplicaIdentity.FULL,
    columns=tuple(replace(column, flags=KEY_COLUMN) for column in ORDERS.columns),
)
TWIN, OTHER = (b"1", b"twin"), (b"2", b"other")


@pytest.mark.parametrize(
    ("change", "delivered"),
    [
        (None, [TWIN, TWIN, OTHER]),
        (Insert(WHOLE.relation_id, TWIN), [OTHER]),
        (Update(WHOLE.relation_id, OldKind.FULL, TWIN, (b"1", b"single")), [OTHER]),
        (Delete(WHOLE.relation_id, OldKind.FULL, TWIN), [OTHER]),
    ],
)
def test_one_change_of_one_of_them_in_their_window_stands_for_all(
    change: Insert | Update | Delete | None, delivered: list[tuple[bytes, bytes]]
) -> None:
    """Decision 75 and the page of the event say so."""
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.transaction(row(1))
    low = log.position
    log.transaction(*([change] if change else []), relation=WHOLE)
    log.snapshot(TWIN, TWIN, OTHER, relation=WHOLE, low=low, low_offset=2)
    delivery = delivery_into(sink)

    delivery.feed(enumerate(log.frames))
    delivery.commit()

    read = [each for each in sink.delivered if each.operation is Operation.SNAPSHOT]
    assert delivered == [getattr(each.message, "new", None) for each in read]
