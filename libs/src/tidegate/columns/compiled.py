"""What makes a Python function a compiled kernel, and where the compiled code is kept.

Invariant: a cache made from other sources is never used. Numba looks only at the file of the function it is asked for;
here a change in any file that a kernel is made from is another folder: `<base>/<digest of these sources>`, one for the
kernels of a file. What is plain Python beside them changes nothing. The base is `NUMBA_CACHE_DIR`, else
`tidegate/kernels` in the user's cache. Where that can't be written, each process compiles anew.

Compiled code fits the processor it was made for, and the cache is asked for by its name. An image that is built on one
host and runs on others sets `NUMBA_CPU_NAME=generic` in build and run alike (it implies an empty NUMBA_CPU_FEATURES).
That costs little here: the kernels move words of eight bytes and ask for no newer instructions.
"""

import hashlib
import os
import re
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar, cast

import numba
import numpy as np
from numba.core import config

signed: Any = np.int64
unsigned: Any = np.uint64
Word: TypeAlias = Any
"""Numba goes to floats where a signed and an unsigned number meet, so kernels say which they mean.
A Word is an unsigned one: to numba a number, to a type checker nothing that Python has."""

Function = TypeVar("Function", bound=Callable[..., Any])

_PART: Final = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_PACKAGES: Final = Path(__file__).parents[2]
_IMPORT: Final = re.compile(r"^from (tidegate[.\w]*) import (\([^)]*\)|.*)$", re.MULTILINE)
_NAME: Final = re.compile(r"\w+")


def inlined(function: Function) -> Function:
    """A part of kernels: compiled into each that calls it, never on its own. A call would cost a third more per row.

    Python can't call it: what that needs is left out, or two more copies of all it calls are compiled with it.
    """
    return cast(Function, numba.njit(forceinline=True, **_PART)(function))


def called(function: Function) -> Function:
    """A part of kernels, too, but one copy for all places: for what is large and rare."""
    # Said, because what is not said is as it is with who calls.
    return cast(Function, numba.njit(forceinline=False, **_PART)(function))


def kernel(function: Function) -> Function:
    """An entry from Python: compiled at the first call or read from the cache. Runs without the interpreter's lock."""
    dispatcher = numba.njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True)(function)
    # The cache looks at the setting once, here; it goes back at once, and binds nobody else.
    before = config.CACHE_DIR
    config.CACHE_DIR = str(cache_folder(Path(function.__code__.co_filename)))
    try:
        with suppress(RuntimeError):  # no place to write to
            dispatcher.enable_caching()
    finally:
        config.CACHE_DIR = before
    return cast(Function, dispatcher)


@lru_cache
def cache_folder(file: Path) -> Path:
    """Of the kernels in it."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(sources(file)):
        digest.update(path.name.encode() + path.read_bytes())
    return cache_base() / digest.hexdigest()


def cache_base() -> Path:
    users = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "tidegate/kernels"
    return Path(config.CACHE_DIR or users)


def sources(file: Path) -> set[Path]:
    """The file and all of Tidegate's that it imports, by whatever way."""
    found: set[Path] = set()
    waiting = {file}
    while waiting:
        each = waiting.pop()
        found.add(each)
        waiting |= _imported(each) - found
    return found


@lru_cache
def _imported(file: Path) -> frozenset[Path]:
    imports = _IMPORT.findall(file.read_text(encoding="utf-8"))
    named = ((package, name) for package, names in imports for name in _NAME.findall(names))
    # A name is a module of the package, or something in the package's own file.
    paths = ((_path(package), _path(f"{package}.{name}")) for package, name in named)
    return frozenset(module if module.is_file() else package for package, module in paths)


def _path(module: str) -> Path:
    path = _PACKAGES.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
