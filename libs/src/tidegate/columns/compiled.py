"""What makes a Python function a compiled kernel, and where the compiled code is kept.

Invariant: a cache made from other sources is never used. Numba looks only at the file of the function it is asked for;
here a change in any file of this package is another folder: `<base>/<digest of the sources>`. The base is
`NUMBA_CACHE_DIR`, else `tidegate/kernels` in the user's cache. Where that can't be written, each process compiles anew.

Compiled code fits the processor it was made for, and the cache is asked for by its name. An image that is built on one
host and runs on others sets `NUMBA_CPU_NAME=generic` in build and run alike (it implies an empty NUMBA_CPU_FEATURES).
That costs little here: the kernels move words of eight bytes and ask for no newer instructions.
"""

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

import numba
import numpy as np
from numba.core import config

signed: Any = np.int64
unsigned: Any = np.uint64
Word: TypeAlias = Any
"""Numba goes to floats where a signed and an unsigned number meet, so kernels say which they mean.
A Word is an unsigned one: to numba a number, to a type checker nothing that Python has."""

Function = TypeVar("Function", bound=Callable[..., Any])


def inlined(function: Function) -> Function:
    """A part of kernels: compiled into each that calls it, never on its own. A call would cost a third more per row."""
    return cast(Function, numba.njit(nogil=True, error_model="numpy", forceinline=True)(function))


def kernel(function: Function) -> Function:
    """An entry from Python: compiled at the first call or read from the cache. Runs without the interpreter's lock."""
    dispatcher = numba.njit(nogil=True, error_model="numpy")(function)
    # The cache looks at the setting once, here; it goes back at once, and binds nobody else.
    before = config.CACHE_DIR
    config.CACHE_DIR = str(cache_folder())
    try:
        with suppress(RuntimeError):  # no place to write to
            dispatcher.enable_caching()
    finally:
        config.CACHE_DIR = before
    return cast(Function, dispatcher)


@lru_cache(maxsize=1)
def cache_folder() -> Path:
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    users = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "tidegate/kernels"
    return Path(config.CACHE_DIR or users) / digest.hexdigest()
