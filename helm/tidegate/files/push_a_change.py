"""Pushes a change through each pipeline: writes a logical message, and waits until the slot has moved past it.

The slot moves only when the reader has framed it, Kafka has kept it, every required sink has acked it, and the gate has
opened: all that a pipeline is for. Nothing is written to a table. Of a standby, where nothing can be written at all, it
is the primary's own changes that are waited for.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import psycopg

from tidegate.config.load import load_pipeline
from tidegate_admin.slots.service import connection_arguments

SECONDS = 120
IS_STANDBY = "SELECT pg_is_in_recovery()"
WRITE = "SELECT pg_logical_emit_message(true, 'tidegate_test', 'helm test')::text"
REPLAYED = "SELECT pg_last_wal_replay_lsn()::text"
PASSED = "SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots WHERE slot_name = %s"


def push(source) -> float | None:
    with psycopg.connect(**connection_arguments(source) | {"options": "", "connect_timeout": 10}) as connection:
        begun = time.monotonic()
        (is_standby,) = connection.execute(IS_STANDBY).fetchone()
        (lsn,) = connection.execute(REPLAYED if is_standby else WRITE).fetchone()
        while time.monotonic() < begun + SECONDS:
            if connection.execute(PASSED, [lsn, source.slot.name]).fetchone() == (True,):
                return time.monotonic() - begun
            time.sleep(0.2)
    return None


failed = 0
for name in sorted(name for name in os.environ if name.startswith("PIPELINE_")):
    file = Path(tempfile.mkdtemp()) / "pipeline.yaml"
    file.write_text(os.environ[name])
    config = load_pipeline(file, secrets=("source",))
    try:
        seconds = push(config.source)
        told = f"not through within {SECONDS} s" if seconds is None else f"through in {seconds:.1f} s"
    except psycopg.Error as error:
        seconds, told = None, f"not through: the source can't be reached ({type(error).__name__})"
    failed += seconds is None
    print(f"pipeline {config.pipeline}: a change is {told}")
sys.exit(1 if failed else 0)
