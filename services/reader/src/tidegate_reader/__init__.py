"""Before all its modules: what the process is kept free of (`tests/test_size.py`)."""

from tidegate.checkpoint.lean_redis import import_lean

import_lean()
