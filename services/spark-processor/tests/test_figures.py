"""Processes are found by their parents, and their times only grow."""

import os
import subprocess
import sys

from tidegate_processor.spark import figures
from tidegate_processor.spark.figures import Figures, Part, SparkWatch

ODD = "7 (a) b (c) S 3 7 7 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 1 0 100 1000 64 18446744073709551615"


def watch() -> SparkWatch:
    made = object.__new__(SparkWatch)
    made.figures, made._ticks = Figures(), {}
    return made


def test_a_name_may_hold_parentheses_and_blanks() -> None:
    process = figures._process(7, ODD)

    assert (process.name, process.parent, process.ticks, process.pages) == ("a) b (c", 3, 300, 64)


def test_only_what_stands_below_the_driver_belongs_to_it() -> None:
    tree = [figures._Process(pid, parent, "x", 0, 0) for pid, parent in ((1, 0), (2, 1), (3, 2), (4, 1), (5, 3))]

    assert {2, 3, 5} == {process.pid for process in figures._family(2, tree)}


def test_a_child_of_this_process_is_seen_as_a_worker() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        seen = watch()
        seen._count(list(figures._family(os.getpid(), list(figures._processes()))))
    finally:
        child.communicate(b"\n", timeout=20)

    assert seen.figures.resident_bytes[Part.DRIVER] > 0
    assert seen.figures.resident_bytes[Part.WORKERS] > 0


def test_the_time_of_a_worker_that_died_stays_counted() -> None:
    seen, me = watch(), os.getpid()
    second = figures._TICKS
    seen._count([figures._Process(me + 1, me, "python", 3 * second, 1)])
    seen._count([])
    seen._count(
        [figures._Process(me + 2, me, "python", 2 * second, 1), figures._Process(me + 3, me, "java", second, 1)]
    )

    assert seen.figures.cpu_seconds == {Part.DRIVER: 0.0, Part.JVM: 1.0, Part.WORKERS: 5.0}
