"""Pages of libraries that a process has read once and does not need: given back, and read again where they are.

Loading a library touches nearly all of it, and works with a part. In the daemon of Python workers, which only waits and
forks, these pages are 145 of 264 MB, and no worker inherits any; in the reader 17 of 55 MB, of which it needs a half.

Invariant: only what equals its file is given back. A mapping in which a page was written, as the loader does with
addresses, is left alone.
"""

import ctypes
import re
from collections.abc import Iterator
from pathlib import Path

_MADV_DONTNEED = 4  # madvise(2)
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ (\d+)")  # proc(5), /proc/pid/smaps
_WRITTEN = re.compile(r"(?:Anonymous|Private_Dirty|Shared_Dirty):\s+([1-9]\d*) kB")


def give_back() -> None:
    """As far as the kernel tells what was written, and takes them."""
    try:
        told = Path("/proc/self/smaps").read_text(errors="replace")
    except OSError:
        return
    madvise = ctypes.CDLL(None).madvise
    for start, length in clean(told):
        madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), _MADV_DONTNEED)


def clean(told: str) -> Iterator[tuple[int, int]]:
    """Start and length of each mapping of a file that nobody may write to and nobody has written to."""
    beginnings = [*_MAPPING.finditer(told)]
    ends = [*(beginning.start() for beginning in beginnings[1:]), len(told)]
    for beginning, end in zip(beginnings, ends, strict=True):
        start, stop = int(beginning[1], 16), int(beginning[2], 16)
        is_of_a_file, may_be_written = beginning[4] != "0", "w" in beginning[3] or beginning[3].endswith("s")
        if is_of_a_file and not may_be_written and not _WRITTEN.search(told, beginning.end(), end):
            yield start, stop - start
