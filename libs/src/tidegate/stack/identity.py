"""Who a process is, beyond its number: numbers come round again.

Invariant: a process is ended only when boot, pid, start time and command line all agree with what was written when it
was started; the signal goes through a pidfd, so it cannot reach a successor of the same number.
"""

import json
import os
import select
import signal
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
START_TIME_FIELD = 22 - 3  # proc(5), /proc/pid/stat: fields 1 and 2 stand before the last parenthesis

StopSteps = Sequence[tuple[signal.Signals, float]]
"""Signals in the order they are sent, and how many seconds each may take."""


@dataclass(frozen=True, slots=True)
class Identity:
    pid: int
    start_ticks: int
    boot_id: str
    argv: tuple[str, ...]

    @classmethod
    def of(cls, pid: int, argv: Sequence[str]) -> "Identity":
        return cls(pid, _start_ticks(pid), BOOT_ID.read_text().strip(), tuple(argv))

    @classmethod
    def read(cls, path: Path) -> "Identity | None":
        """None also for a torn or foreign file: what cannot be proved is not ours."""
        try:
            found = json.loads(path.read_text())
            return cls(int(found["pid"]), int(found["start_ticks"]), str(found["boot_id"]), tuple(found["argv"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, path: Path) -> None:
        part = path.with_name(path.name + ".part")
        part.write_text(json.dumps(asdict(self)))
        part.replace(path)

    def is_running(self) -> bool:
        try:
            return (
                self.boot_id == BOOT_ID.read_text().strip()
                and self.start_ticks == _start_ticks(self.pid)
                and self.argv == _command_line(self.pid)[-len(self.argv) :]
            )
        except (OSError, ValueError):
            return False


def end_leftover(path: Path, steps: StopSteps) -> bool:
    """Ends the process that `path` describes if it still runs; removes the file. True if one had to be ended."""
    identity = Identity.read(path)
    ended = identity is not None and _end(identity, steps)
    path.unlink(missing_ok=True)
    return ended


def _end(identity: Identity, steps: StopSteps) -> bool:
    try:
        descriptor = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return False
    try:
        if not identity.is_running():
            return False
        for number, seconds in steps:
            signal.pidfd_send_signal(descriptor, number)
            if select.select([descriptor], [], [], seconds)[0]:
                break
        return True
    except ProcessLookupError:
        return True
    finally:
        os.close(descriptor)


def _start_ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[START_TIME_FIELD])


def _command_line(pid: int) -> tuple[str, ...]:
    return tuple(os.fsdecode(part) for part in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1])
