"""Spark's daemon of Python workers, with all that a lane's stage needs in memory before the first worker is forked.

A worker shares what was there before with the daemon and with all other workers: a further lane costs what it writes
itself, a tenth of the whole, and its first frame waits for no import and no kernel.

Invariant: when a worker is forked, the daemon has one thread, no client of any server and no secret; so nothing that a
worker has is another one's too. What comes with threads of its own is told to have none, before it is imported.

    python -m tidegate_processor.spark.daemon pyspark.worker        as Spark calls it: `spark.python.daemon.module`
"""

import ctypes
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import IO

from tidegate import file_pages

_NO_THREADS = {
    "OPENBLAS_NUM_THREADS": "1",  # numpy's; the kernels do no linear algebra
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # of an allocator in pyarrow that is not even its default
}
_OUTPUT, _ERRORS = 1, 2
_M_ARENA_MAX = -8  # mallopt(3)
# A worker has ten threads, most of them asleep in Kafka's client; with an arena for each it takes 5 MB more.
_ARENAS = 2

# Imported by others, if it is there, for what nobody here asks: by pyarrow, to know the types of pandas by sight (23 MB
# in each worker), and by the client of Redis, for metrics of its own (3 MB).
_LEFT_OUT = frozenset({"pandas", "opentelemetry"})


def preload() -> None:
    """Spark reads the daemon's port from its output, so nothing else may be written there meanwhile."""
    os.environ.update(_NO_THREADS)
    _limit_arenas()
    with _output_to_errors(), _left_out():
        import pyspark.worker  # noqa: F401

        from tidegate_processor.stage import warm_up

        warm_up()
    file_pages.give_back()


def _limit_arenas() -> None:
    """In the C library that has them."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, _ARENAS)


@contextmanager
def _output_to_errors() -> Iterator[None]:
    output = os.dup(_OUTPUT)
    os.dup2(_ERRORS, _OUTPUT)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(output, _OUTPUT)
        os.close(output)


class _Absent(MetaPathFinder):
    def find_spec(self, name: str, *_: object) -> None:
        if name in _LEFT_OUT:
            raise ModuleNotFoundError(f"no module named {name} while workers are prepared", name=name)


@contextmanager
def _left_out() -> Iterator[None]:
    """Who asks for it meanwhile goes on without it; who needs it later imports it, as tracing does."""
    absent = _Absent()
    sys.meta_path.insert(0, absent)
    try:
        yield
    finally:
        sys.meta_path.remove(absent)


def from_files(path: Sequence[str]) -> list[str]:
    """Without Spark's archive of its Python part, where this is of a package whose files can be imported as well: there
    is byte code of them, and what an archive has is compiled anew: 0.35 of 1.3 CPU-seconds."""
    return [entry for entry in path if not _is_of_installed(Path(entry), path)]


def _is_of_installed(archive: Path, path: Sequence[str]) -> bool:
    """As pip installs it: pyspark/python/lib/pyspark.zip."""
    if archive.name != "pyspark.zip" or len(archive.parents) < 4:
        return False
    package, place = archive.parents[2], archive.parents[3]
    return package.joinpath("__init__.py").is_file() and package.name == archive.stem and str(place) in path


def main() -> None:
    sys.path[:] = from_files(sys.path)
    preload()
    _keep_to_ourselves()
    _cut_off_in_silence()
    from pyspark.daemon import manager

    manager()


def _cut_off_in_silence() -> None:
    """Spark ends a task in real time by letting go of its worker, which has forty lines to say to nobody then."""
    from pyspark import worker

    whole = worker.main

    def main(infile: IO[bytes], outfile: IO[bytes]) -> None:
        try:
            whole(infile, outfile)
        except BrokenPipeError:
            os._exit(0)

    worker.main = main


def _keep_to_ourselves() -> None:
    """Who may write to the daemon's socket, which is a file, gets a worker that does what it is told. Workers write
    their files with the rights that were configured."""
    before = os.umask(0o077)
    os.register_at_fork(after_in_child=lambda: os.umask(before))


if __name__ == "__main__":
    main()
