"""Pages of libraries are given back where they equal their files, and a process goes on without them."""

import subprocess
import sys

from tidegate import file_pages

_MAPPINGS = """\
1000-3000 r-xp 00000000 fe:00 77   /lib/a b.so
Size:                  8 kB
Private_Dirty:         0 kB
Anonymous:             0 kB
3000-4000 r--p 00002000 fe:00 77   /lib/a b.so
Private_Dirty:         4 kB
Anonymous:             4 kB
4000-5000 rw-p 00003000 fe:00 77   /lib/a b.so
Anonymous:             0 kB
5000-6000 r--s 00000000 fe:00 78   /shared
Anonymous:             0 kB
6000-7000 r-xp 00000000 00:00 0    [vdso]
Anonymous:             0 kB
8000-9000 r--p 00000000 fe:00 79   /lib/c.so
Private_Dirty:         0 kB
Anonymous:             0 kB
"""


def test_only_pages_of_files_to_which_nobody_has_written_are_given_back() -> None:
    assert list(file_pages.clean(_MAPPINGS)) == [(0x1000, 0x2000), (0x8000, 0x1000)]


def test_a_process_that_has_given_pages_back_works_on() -> None:
    script = (
        "import pyarrow, numpy; from tidegate.file_pages import give_back; give_back();"
        "assert pyarrow.array(numpy.arange(3)).to_pylist() == [0, 1, 2]; import json, ssl; give_back(); json.dumps([1])"
    )
    subprocess.run([sys.executable, "-c", script], timeout=60, check=True)
