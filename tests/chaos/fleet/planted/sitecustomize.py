"""Python imports this by itself where this folder is on its path: it plants the bug that CHAOS_PLANTED's file names.

Invariant: without the variable nothing happens; the services' own files are never touched.
"""

import os
from pathlib import Path

if _file := os.environ.get("CHAOS_PLANTED"):
    from chaos.fleet.plants import watch

    watch(Path(_file))
