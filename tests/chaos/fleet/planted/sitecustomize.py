"""Python imports this by itself where this folder is on its path: it plants the bug that CHAOS_PLANTED names.

Invariant: without the variable nothing happens; the services' own files are never touched.
"""

import os

if _name := os.environ.get("CHAOS_PLANTED"):
    from chaos.fleet.plants import plant

    plant(_name)
