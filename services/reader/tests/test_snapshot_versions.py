"""Snapshots on every major of PostgreSQL that can be had: before the stream, and beside it."""

from typing import Any

from kit.snapshots import replica_of
from kit.wait import wait

from tidegate.contracts.frame import FrameKind
from tidegate.contracts.snapshot import decode_snapshot


def test_rows_are_read_before_the_stream_and_beside_it(versioned: Any) -> None:
    versioned.sql("CREATE TYPE mood AS ENUM ('sad', 'ok')")
    versioned.sql("ALTER TABLE orders ADD COLUMN mood mood")
    versioned.sql("INSERT INTO orders (note, mood) SELECT 'row ' || n, 'ok' FROM generate_series(1, 3000) n")
    process = versioned.reader("snapshot.mode=initial")
    wait(lambda: "snapshot_done" in versioned.log(), 30, "all is read before the stream")
    versioned.sql("UPDATE orders SET note = 'changed' WHERE id = 7")
    versioned.stop(process)
    versioned.reader("snapshot.mode=always")
    wait(lambda: "snapshot_done" in versioned.log(), 30, "all is read beside the stream")
    frames = versioned.frames()
    bodies = [decode_snapshot(each.body) for each in frames if each.header.kind is FrameKind.SNAPSHOT]
    assert sum(body.head.rows for body in bodies if not body.head.has_window) == 3000
    assert sum(body.head.rows for body in bodies if body.head.has_window) == 3000
    rows = versioned.sql("SELECT id::text, note, mood::text FROM orders")
    expected = {(row[0].encode(),): tuple(value.encode() for value in row) for row in rows}
    assert replica_of(versioned.valid_records()).named("orders") == expected
    shapes = {entry for each in frames for entry in each.schema}
    assert len(shapes) == 2, "the type and the relation, told alike by snapshot and stream"
