"""A clock that is wrong for one process and what it starts, and that may be set while they run.

Invariant: a process whose environment has the clock starts with what it shows then; `set_to` is seen at once.
"""

import shutil
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

_SOURCE = Path(__file__).with_name("clock.c")


class Clock:
    def __init__(self, folder: Path) -> None:
        self.ahead_seconds = 0.0
        self._file, self._library = folder / "clock", folder / "clock.so"

    def make(self) -> None:
        """Of the folder's own: any account may read it."""
        self._file.write_bytes(struct.pack("=q", 0))
        self._file.chmod(0o644)
        compiler = shutil.which("cc")
        assert compiler is not None
        options = ("-O2", "-shared", "-fPIC", "-ldl")
        subprocess.run([compiler, *options, "-o", str(self._library), str(_SOURCE)], check=True)

    @property
    def environment(self) -> Mapping[str, str]:
        return {"LD_PRELOAD": str(self._library), "CHAOS_CLOCK": str(self._file)}

    def set_to(self, ahead_seconds: float) -> None:
        """In place, for the file is mapped by who runs by it."""
        self.ahead_seconds = ahead_seconds
        with self._file.open("r+b", buffering=0) as file:
            file.write(struct.pack("=q", round(ahead_seconds * 1e9)))


def lacks() -> str:
    """What this machine would need for it, or nothing."""
    return "" if shutil.which("cc") else "no C compiler (cc)"
