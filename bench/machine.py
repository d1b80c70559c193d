"""On what, when, and by which revision something was measured: in every file of results."""

import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

CORES = os.cpu_count() or 1
ENOUGH_CORES = 4
"""For what is asked only where server, broker and services need not wait for each other."""


def machine() -> dict[str, Any]:
    return {
        "cores": CORES,
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "cpu": _cpu_name(),
        "platform": platform.platform(),
        "load_at_end": os.getloadavg(),
    }


def revision() -> str:
    asked = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return asked.stdout.strip()


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _cpu_name() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
