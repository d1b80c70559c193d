"""Refuses an uninstall that has not said what becomes of the slots, or could not do it: each keeps WAL for ever once
nobody reads it, and a connection that fails is to be mended while there still is a release."""

import os
import sys
import tempfile
from pathlib import Path

import psycopg

from tidegate.config.load import load_pipeline
from tidegate_admin.slots.service import connection_arguments


def fails(source) -> str:
    try:
        psycopg.connect(**connection_arguments(source) | {"connect_timeout": 10}).close()
    except psycopg.Error as error:
        return type(error).__name__
    return ""


decided = os.environ["DECIDED"]
answer = decided if decided in ("drop", "keep") else os.environ.get("ANSWER")
configs = []
for name in sorted(name for name in os.environ if name.startswith("PIPELINE_")):
    file = Path(tempfile.mkdtemp()) / "pipeline.yaml"
    file.write_text(os.environ[name])
    configs.append(load_pipeline(file, secrets=("source",) if answer == "drop" else ()))
if answer == "drop":
    unreachable = 0
    for config in configs:
        why = fails(config.source)
        unreachable += bool(why)
        told = f"its source can't be reached ({why}): its slot could not be dropped" if why else "its source is reached"
        print(f"pipeline {config.pipeline}: {told}")
    if unreachable:
        print("Nothing has been deleted. Mend the connection, or answer keep and drop these slots yourself.")
    sys.exit(1 if unreachable else 0)
if answer == "keep":
    print("slots: keep")
    sys.exit(0)
for config in configs:
    slot = config.source.slot.name
    print(f"pipeline {config.pipeline}: slot {slot} would stay and keep WAL until the server's disk is full")
print("Nothing has been deleted. Say what becomes of the slots, drop or keep, and uninstall again:")
print(f"  kubectl -n {os.environ['NAMESPACE']} create configmap {os.environ['QUESTION']} --from-literal=answer=drop")
print(f"  helm -n {os.environ['NAMESPACE']} uninstall {os.environ['RELEASE']}")
sys.exit(1)
