"""How long a target may take and how much it may hold, as a multiple of its input.

Invariant: measured in this process's own CPU time, so that a busy machine fails nobody. What the targets compare with
(the reference, encoding again, Arrow's validation) is in the measure: the codec alone is far below it.
"""

import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

MOST_SECONDS = 0.05
MOST_TIMES = 10
FIXED_BYTES = 1 << 20
"""Whatever the input: an exception with its frames, the smallest buffer of events, plans of relations."""


def seconds(target: Callable[[bytes], None], data: bytes) -> float:
    begun = time.thread_time()
    target(data)
    return time.thread_time() - begun


def peak_bytes(work: Callable[[bytes], object], data: bytes) -> int:
    tracemalloc.start()
    try:
        work(data)
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return peak


def peak_resident_bytes(work: Callable[[bytes], object], data: bytes) -> int:
    """What Python does not know of: pages that were touched meanwhile (Linux: proc(5), clear_refs and status)."""
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    work(data)
    return _status("VmHWM") - before


def _status(name: str) -> int:
    (line,) = (each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024
