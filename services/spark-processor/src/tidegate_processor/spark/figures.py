"""What Spark uses, looked at every few seconds: its JVM's heap and collections, and the processes below this one.

Invariant: what a container's limit counts is all there, by part: the driver, Spark's JVM, and the Python workers in
which lanes run. Times only grow, whoever dies between two looks. On a cluster the workers are elsewhere.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tidegate_processor.spark import executors

LOOK_SECONDS = 5.0
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_MILLISECONDS = 1000


class Part(StrEnum):
    DRIVER = "driver"
    JVM = "jvm"
    WORKERS = "workers"


@dataclass(slots=True)
class Figures:
    heap_bytes: int = 0
    heap_limit_bytes: int = 0
    collecting_seconds: float = 0.0
    executors: int = 0
    resident_bytes: dict[Part, int] = field(default_factory=lambda: dict.fromkeys(Part, 0))
    cpu_seconds: dict[Part, float] = field(default_factory=lambda: dict.fromkeys(Part, 0.0))


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    parent: int
    name: str
    ticks: int
    pages: int


class SparkWatch:
    def __init__(self, session: SparkSession) -> None:
        self.figures = Figures()
        context: Any = session.sparkContext  # the way into the JVM has no types
        management = context._jvm.java.lang.management.ManagementFactory
        self._spark = executors.context_of(session)
        self._memory = management.getMemoryMXBean()
        self._collectors = list(management.getGarbageCollectorMXBeans())
        self._ticks: dict[int, int] = {}
        self._look_again = 0.0

    def look(self) -> Figures:
        now = time.monotonic()
        if now >= self._look_again:
            self._look_again = now + LOOK_SECONDS
            self._ask_the_jvm()
            self._count(list(_family(os.getpid(), list(_processes()))))
        return self.figures

    def _ask_the_jvm(self) -> None:
        heap = self._memory.getHeapMemoryUsage()
        self.figures.heap_bytes, self.figures.heap_limit_bytes = heap.getUsed(), heap.getMax()
        spent = sum(collector.getCollectionTime() for collector in self._collectors)
        self.figures.collecting_seconds = spent / _MILLISECONDS
        self.figures.executors = executors.count(self._spark)

    def _count(self, family: list[_Process]) -> None:
        resident = dict.fromkeys(Part, 0)
        for process in family:
            part = _part(process)
            resident[part] += process.pages * _PAGE_BYTES
            self.figures.cpu_seconds[part] += max(0, process.ticks - self._ticks.get(process.pid, 0)) / _TICKS
        self.figures.resident_bytes = resident
        self._ticks = {process.pid: process.ticks for process in family}


def _part(process: _Process) -> Part:
    if process.pid == os.getpid():
        return Part.DRIVER
    return Part.JVM if process.name == "java" else Part.WORKERS


def _family(root: int, processes: list[_Process]) -> Iterator[_Process]:
    below: dict[int, list[_Process]] = {}
    for process in processes:
        below.setdefault(process.parent, []).append(process)
    found = [process for process in processes if process.pid == root]
    while found:
        process = found.pop()
        yield process
        found.extend(below.get(process.pid, ()))


def _processes() -> Iterator[_Process]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stat = (entry / "stat").read_text(errors="replace")
            except OSError:
                continue  # it has ended meanwhile
            yield _process(int(entry.name), stat)


def _process(pid: int, stat: str) -> _Process:
    """proc(5): behind the name in parentheses, which may hold any, fields are counted from the third."""
    name, _, rest = stat.partition("(")[2].rpartition(")")
    fields = rest.split()
    return _Process(pid, int(fields[4 - 3]), name, int(fields[14 - 3]) + int(fields[15 - 3]), int(fields[24 - 3]))
