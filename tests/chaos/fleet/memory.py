"""Little memory: a control group that a service and all it starts live in, as a container would give them.

Invariant: what is in the group never holds more than its limit; the kernel kills in it, and counts that, if it would.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kit.wait import wait


@dataclass(frozen=True, slots=True)
class _Files:
    """Of a version of control groups, by what they are for."""

    limits: Sequence[str]
    """The second, of memory with swap, is not everywhere."""
    peak: str
    killed: str


_V1 = _Files(
    ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"), "memory.max_usage_in_bytes", "memory.oom_control"
)
_V2 = _Files(("memory.max", "memory.swap.max"), "memory.peak", "memory.events")


class MemoryLimit:
    def __init__(self, name: str, most_bytes: int) -> None:
        parent, self._files = _parent()
        self.most_bytes, self._group = most_bytes, parent / f"tidegate-{name}"
        self._group.mkdir(exist_ok=True)
        limit, swap = (self._group / file for file in self._files.limits)
        limit.write_text(str(most_bytes))
        if swap.exists():
            swap.write_text("0" if self._files is _V2 else str(most_bytes))

    @property
    def within(self) -> Sequence[str]:
        """What a command is started behind, to be in the group from its first moment."""
        return ("/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self._group / "cgroup.procs"))

    @property
    def killed(self) -> int:
        """How many processes the kernel has killed for want of memory."""
        lines = (self._group / self._files.killed).read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))

    @property
    def peak_bytes(self) -> int:
        return int((self._group / self._files.peak).read_text())

    def remove(self) -> None:
        """Once nobody lives in it."""
        wait(lambda: not (self._group / "cgroup.procs").read_text(), 10, "the group is empty")
        self._group.rmdir()


def lacks() -> str:
    """What this machine would need for it, or nothing."""
    with suppress(OSError):
        parent, files = _parent()
        probe = parent / f"tidegate-probe-{os.getpid()}"
        probe.mkdir()
        try:
            if (probe / files.limits[0]).exists():
                return ""
        finally:
            probe.rmdir()
    return "no memory control group that we may write to"


def _parent() -> tuple[Path, _Files]:
    """The group of this process, which those of the services are within."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _number, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return Path("/sys/fs/cgroup/memory") / path.lstrip("/"), _V1
    return Path("/sys/fs/cgroup"), _V2
