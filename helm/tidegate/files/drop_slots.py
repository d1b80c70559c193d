"""Drops each pipeline's slot, once nobody reads it any more; waits for a reader that is still leaving."""

import os
import sys
import tempfile
import time
from pathlib import Path

import psycopg

from tidegate.config.load import load_pipeline

SECONDS = 120
DROP = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s AND NOT active"
LOOK = "SELECT active FROM pg_replication_slots WHERE slot_name = %s"


def drop(source) -> bool:
    settings = {"host": source.host, "port": source.port, "dbname": source.database, "user": source.user}
    tls = {
        "sslmode": source.tls.mode,
        "sslrootcert": source.tls.ca,
        "sslcert": source.tls.cert,
        "sslkey": source.tls.key,
    }
    password = source.password.reveal() if source.password else None
    given = {name: value for name, value in (settings | tls | {"password": password}).items() if value is not None}
    deadline = time.monotonic() + SECONDS
    with psycopg.connect(**given, autocommit=True, connect_timeout=10) as connection:
        while time.monotonic() < deadline:
            connection.execute(DROP, [source.slot.name])
            if connection.execute(LOOK, [source.slot.name]).fetchone() is None:
                return True
            time.sleep(1)
    return False


if "drop" not in (os.environ["DECIDED"], os.environ.get("ANSWER")):
    print("slots: kept")
    sys.exit(0)
left = 0
for name in sorted(name for name in os.environ if name.startswith("PIPELINE_")):
    file = Path(tempfile.mkdtemp()) / "pipeline.yaml"
    file.write_text(os.environ[name])
    config = load_pipeline(file, environ={}, secrets=("source",))
    gone = drop(config.source)
    left += not gone
    print(
        f"pipeline {config.pipeline}: slot {config.source.slot.name} {'dropped' if gone else 'is still read: it stays'}"
    )
sys.exit(1 if left else 0)
