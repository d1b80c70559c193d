"""Refuses an uninstall that has not said what becomes of the slots: each keeps WAL for ever once nobody reads it."""

import os
import sys

import yaml

answer = os.environ.get("ANSWER")
if answer in ("drop", "keep"):
    print(f"slots: {answer}")
    sys.exit(0)
for name in sorted(name for name in os.environ if name.startswith("PIPELINE_")):
    config = yaml.safe_load(os.environ[name])
    pipeline = config["pipeline"]
    slot = config["source"].get("slot", {}).get("name") or f"tidegate_{pipeline.replace('-', '_')}"
    print(f"pipeline {pipeline}: slot {slot} would stay and keep WAL until the server's disk is full")
print("Nothing has been deleted. Say what becomes of the slots, drop or keep, and uninstall again:")
print(f"  kubectl -n {os.environ['NAMESPACE']} create configmap {os.environ['QUESTION']} --from-literal=answer=drop")
print(f"  helm -n {os.environ['NAMESPACE']} uninstall {os.environ['RELEASE']}")
sys.exit(1)
