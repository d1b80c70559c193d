"""Who we are, short enough for an application_name, so that a later process can prove that we are dead.

`<pid>.<place>.<start>`: the place is this machine's boot and process namespace, the start the process's own, in clock
ticks since the boot. Only in the same place does a pid mean the same process, and only with the same start.
"""

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

_PLACE_DIGITS = 6
_FORM = re.compile(r"(\d{1,7})\.([0-9a-f]{6})\.([0-9a-f]{1,12})", re.ASCII)
_BOOT = Path("/proc/sys/kernel/random/boot_id")
# proc(5): the command's name, which may hold anything, ends with the last parenthesis; then field 3, the state.
_START_FIELD = 22 - 3


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    pid: int
    place: str
    start: str

    def __str__(self) -> str:
        return f"{self.pid}.{self.place}.{self.start}"

    @classmethod
    def own(cls) -> "ProcessIdentity":
        pid = os.getpid()
        return cls(pid, _place(), _start(pid) or "0")

    @classmethod
    def parse(cls, text: str) -> "ProcessIdentity | None":
        match = _FORM.fullmatch(text)
        return cls(int(match[1]), match[2], match[3]) if match else None

    @property
    def is_dead(self) -> bool:
        """False also where it cannot be known."""
        return self.place == _place() and _place() != "" and _start(self.pid) != self.start


def _place() -> str:
    try:
        boot, namespace = _BOOT.read_text().strip(), Path("/proc/self/ns/pid").readlink()
    except OSError:
        return ""
    return hashlib.blake2b(f"{boot} {namespace}".encode()).hexdigest()[:_PLACE_DIGITS]


def _start(pid: int) -> str | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    # A zombie holds nothing any more: its sockets are closed.
    return None if fields[0] == "Z" else f"{int(fields[_START_FIELD]):x}"
