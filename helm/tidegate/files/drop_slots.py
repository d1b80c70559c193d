"""Drops each pipeline's slot, once nobody reads it any more; waits for a reader that is still leaving."""

import os
import sys
import tempfile
import time
from pathlib import Path

import psycopg

from tidegate.config.load import load_pipeline
from tidegate_admin.slots.service import connection_arguments

SECONDS = 120
DROP = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s AND NOT active"
LOOK = "SELECT active FROM pg_replication_slots WHERE slot_name = %s"


def drop(source) -> bool:
    deadline = time.monotonic() + SECONDS
    with psycopg.connect(**connection_arguments(source) | {"options": "", "connect_timeout": 10}) as connection:
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
    config = load_pipeline(file, secrets=("source",))
    try:
        told = "dropped" if drop(config.source) else "is still read: it stays"
    except psycopg.Error as error:
        told = f"stays, its source can't be reached ({type(error).__name__})"
    left += told != "dropped"
    print(f"pipeline {config.pipeline}: slot {config.source.slot.name} {told}")
sys.exit(1 if left else 0)
