"""CPU and memory of process trees, from /proc, and how much of the machine went to others.

Invariant: CPU never goes back: what ended children have used is in their parents' figures once they are reaped.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

TICKS = os.sysconf("SC_CLK_TCK")
# proc(5), /proc/stat: user nice system idle iowait irq softirq steal guest guest_nice
IDLE, IOWAIT, STEAL = 3, 4, 7


def tree(roots: Iterable[int]) -> Iterator[psutil.Process]:
    for root in roots:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(root)
            yield process
            yield from process.children(recursive=True)


def cpu_seconds(roots: Iterable[int]) -> float:
    total = 0.0
    for process in tree(roots):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def rss_mb(roots: Iterable[int]) -> float:
    """What forked workers share counts for each of them: an upper bound."""
    total = 0
    for process in tree(roots):
        with suppress(psutil.NoSuchProcess):
            total += process.memory_info().rss
    return total / 2**20


def machine_seconds() -> tuple[float, float]:
    """CPU-seconds of the whole machine that were used since it started, and those that its host took."""
    fields = [int(each) / TICKS for each in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    used = sum(fields) - fields[IDLE] - fields[IOWAIT] - fields[STEAL]
    return used, fields[STEAL]


def bytes_of_topics(data: Path, prefixes: Sequence[str]) -> int:
    """Of the records alone: Kafka keeps indexes of a fixed size beside them."""
    return sum(
        segment.stat().st_size
        for folder in data.iterdir()
        if folder.name.startswith(tuple(prefixes))
        for segment in folder.glob("*.log")
    )
