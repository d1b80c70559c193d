"""How figures of runs are written down, and of which code they are."""

import json
import os
import subprocess
from pathlib import Path


def write_json(file: Path, document: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def commit() -> str:
    if given := os.environ.get("CHAOS_COMMIT"):
        return given
    asked = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return asked.stdout.strip()
