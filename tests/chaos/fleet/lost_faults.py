"""Faults that nothing can mend: changes are gone from the source before they were delivered, or it is another history.

Each leaves a pipeline that must be called LOST: the reader ends with 3 and stays down, and nothing more is confirmed.
Invariant: the load flows meanwhile, so that a reader which went on would lose something.
"""

import random

from chaos.fleet.faults import flow
from chaos.fleet.field import Field


def slot_advanced(field: Field, draw: random.Random) -> None:
    """Past changes that nobody has."""
    field.reader.end()
    flow(field, draw)
    field.rig.sql("CHECKPOINT")
    field.rig.sql("SELECT pg_replication_slot_advance(%s, pg_current_wal_lsn())::text", field.rig.slot)
    field.reader.start()


def slot_dropped(field: Field, draw: random.Random) -> None:
    field.reader.end()
    field.rig.sql("SELECT pg_drop_replication_slot(%s)::text", field.rig.slot)
    flow(field, draw)
    field.reader.start()


def slot_made_anew(field: Field, draw: random.Random) -> None:
    """By hand, under the same name: what was written between the two is in neither."""
    field.reader.end()
    field.rig.sql("SELECT pg_drop_replication_slot(%s)::text", field.rig.slot)
    flow(field, draw)
    field.rig.sql("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')::text", field.rig.slot)
    field.reader.start()


def slot_invalidated(field: Field, draw: random.Random) -> None:
    """Its WAL was more than the server may keep."""
    field.reader.end()
    flow(field, draw)
    for setting in ("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'", "SELECT pg_reload_conf()::text"):
        field.rig.sql(setting)
    for _ in range(5):
        field.rig.sql("SELECT pg_logical_emit_message(true, 'filler', repeat('x', 1000000))::text")
        field.rig.sql("SELECT pg_switch_wal()::text")
    field.rig.sql("CHECKPOINT")
    for setting in ("ALTER SYSTEM RESET max_slot_wal_keep_size", "SELECT pg_reload_conf()::text"):
        field.rig.sql(setting)
    field.reader.start()


def standby_promoted(field: Field, draw: random.Random) -> None:
    """The server comes back as a standby does from its promotion: the same cluster and slot, on another timeline."""
    flow(field, draw)
    server = field.servers.postgres
    server.stop()
    (server.data / "standby.signal").touch()
    server.start()
    field.rig.sql("SELECT pg_promote(true, 60)::text")
