"""Pushes a change through each pipeline: writes a logical message, and waits until the slot has moved past it.

The slot moves only when the reader has framed it, Kafka has kept it, every required sink has acked it, and the gate has
opened: all that a pipeline is for. Nothing is written to a table.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import psycopg

from tidegate.config.load import load_pipeline

SECONDS = 120
WRITE = "SELECT pg_logical_emit_message(true, 'tidegate_test', 'helm test')::text"
PASSED = "SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots WHERE slot_name = %s"


def push(source) -> float | None:
    settings = {"host": source.host, "port": source.port, "dbname": source.database, "user": source.user}
    tls = {
        "sslmode": source.tls.mode,
        "sslrootcert": source.tls.ca,
        "sslcert": source.tls.cert,
        "sslkey": source.tls.key,
    }
    password = source.password.reveal() if source.password else None
    given = {name: value for name, value in (settings | tls | {"password": password}).items() if value is not None}
    with psycopg.connect(**given, autocommit=True, connect_timeout=10) as connection:
        begun = time.monotonic()
        (lsn,) = connection.execute(WRITE).fetchone()
        while time.monotonic() < begun + SECONDS:
            if connection.execute(PASSED, [lsn, source.slot.name]).fetchone() == (True,):
                return time.monotonic() - begun
            time.sleep(0.2)
    return None


failed = 0
for name in sorted(name for name in os.environ if name.startswith("PIPELINE_")):
    file = Path(tempfile.mkdtemp()) / "pipeline.yaml"
    file.write_text(os.environ[name])
    config = load_pipeline(file, environ={}, secrets=("source",))
    seconds = push(config.source)
    failed += seconds is None
    told = f"not through within {SECONDS} s" if seconds is None else f"through in {seconds:.1f} s"
    print(f"pipeline {config.pipeline}: a change is {told}")
sys.exit(1 if failed else 0)
