"""What the processor has started: the JVM of Spark's driver, the daemon of its workers, and the largest of those.

Invariant: a process that is gone meanwhile is left out.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from chaos.fleet.sampler import resident_bytes

JVM_BYTES = 2**30
"""The heap that it is given by default, 768 MiB, and a third of that for what is beside it; measured: 667 MiB."""
WORKER_BYTES = 2**29
"""Twice what was measured with rows of 1,600 columns, and with ten of them: 240 MiB, most of it shared kernels."""


def by_name(services: Mapping[str, int]) -> dict[str, int]:
    """With the services themselves."""
    found = dict(services)
    for pid in _descendants(services.get("processor", 0)):
        name = "jvm" if _program(pid).endswith("java") else "worker"
        if resident_bytes(pid) >= resident_bytes(found.get(name, 0)):
            found[name] = pid
    return found


def _descendants(pid: int) -> Iterator[int]:
    """Of each thread, for a JVM starts processes from any."""
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(child) for child in listed.read_text().split()]
        except OSError:
            continue
        for child in children:
            yield child
            yield from _descendants(child)


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
    except OSError:
        return ""
