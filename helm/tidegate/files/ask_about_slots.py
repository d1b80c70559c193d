"""Refuses an uninstall that has not said what becomes of the slots: each keeps WAL for ever once nobody reads it."""

import os
import sys

import yaml

for name in sorted(name for name in os.environ if name.startswith("PIPELINE_")):
    config = yaml.safe_load(os.environ[name])
    pipeline = config["pipeline"]
    slot = config["source"].get("slot", {}).get("name") or f"tidegate_{pipeline.replace('-', '_')}"
    print(f"pipeline {pipeline}: slot {slot} would stay and keep WAL until the server's disk is full")
print("Say what becomes of it, and uninstall again:")
print("  helm upgrade RELEASE CHART --reuse-values --set uninstall.slots=drop     # dropped once the readers are gone")
print("  helm upgrade RELEASE CHART --reuse-values --set uninstall.slots=keep     # you will come back to it")
sys.exit(1)
