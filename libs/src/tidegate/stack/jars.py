"""The jars of the broker and of Spark's Kafka connector: locked by checksum, fetched once into the cache.

`python -m tidegate.stack.jars fetch [kafka|spark|all]`. Standard library only: the bootstrap runs it beside `uv sync`.
A jar set is named file by file in `jars.toml`: nothing is resolved at run time.
"""

import fcntl
import os
import sys
import threading
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tidegate.errors import ConfigError, TidegateError
from tidegate.stack.cache import cache_root
from tidegate.stack.download import Received, Wanted, download

LOCK = Path(__file__).with_name("jars.toml")
CENTRAL = "https://repo.maven.apache.org/maven2"
AT_ONCE = 8
REPORT_EVERY_BYTES = 4 * 1024 * 1024


def ensure(jar_set: str, received: Received = lambda _bytes: None, *, lock: Path = LOCK) -> list[Path]:
    """The paths of a set's jars, in the order of the lock; what is missing is fetched first. Safe to run at once."""
    wanted = list(wanted_jars(jar_set, lock))
    if not all(jar.is_there for jar in wanted):
        with _only_one():
            _fetch([jar for jar in wanted if not jar.is_there], received)
    return [jar.target for jar in wanted]


def wanted_jars(jar_set: str, lock: Path = LOCK) -> Iterator[Wanted]:
    sets = tomllib.loads(lock.read_text())
    if jar_set not in sets:
        raise ConfigError(
            f"there is no jar set {jar_set}", code="JARS_UNKNOWN_SET", remedy=f"Choose from {', '.join(sets)}."
        )
    base = os.environ.get("TIDEGATE_MAVEN_URL", CENTRAL).rstrip("/")
    for jar in sets[jar_set]:
        path = _repository_path(jar["coordinate"])
        yield Wanted(f"{base}/{path}", cache_root() / "jars" / path, jar["sha256"], jar["size"])


def jar_sets() -> list[str]:
    return list(tomllib.loads(LOCK.read_text()))


def _repository_path(coordinate: str) -> str:
    group, artifact, version = coordinate.split(":")
    return f"{group.replace('.', '/')}/{artifact}/{version}/{artifact}-{version}.jar"


def _fetch(missing: Sequence[Wanted], received: Received) -> None:
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="jars") as pool:
        fetched = [pool.submit(download, jar, received) for jar in missing]
        try:
            for one in fetched:
                one.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@contextmanager
def _only_one() -> Iterator[None]:
    """Whoever comes second waits here, and then finds everything there."""
    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    with (root / "jars.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class _Report:
    """Prints how far it is, every few megabytes; called from many threads."""

    def __init__(self, name: str, total_bytes: int) -> None:
        self._name = name
        self._total_bytes = total_bytes
        self._have_bytes = 0
        self._told_bytes = 0
        self._lock = threading.Lock()

    def __call__(self, more_bytes: int) -> None:
        with self._lock:
            self._have_bytes += more_bytes
            if self._have_bytes - self._told_bytes >= REPORT_EVERY_BYTES or self._have_bytes == self._total_bytes:
                self._told_bytes = self._have_bytes
                print(
                    f"jars {self._name}: {_megabytes(self._have_bytes)} of {_megabytes(self._total_bytes)} MB",
                    flush=True,
                )


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.1f}"


def fetch_aloud(jar_set: str) -> None:
    """As `ensure`, with the progress printed."""
    missing = [jar for jar in wanted_jars(jar_set) if not jar.is_there]
    paths = ensure(jar_set, _Report(jar_set, sum(jar.size for jar in missing)))
    print(f"jars {jar_set}: {len(paths)} files in {cache_root() / 'jars'}", flush=True)


def main(arguments: Sequence[str]) -> int:
    known = jar_sets()
    match arguments:
        case ["fetch"] | ["fetch", "all"]:
            chosen = known
        case ["fetch", jar_set] if jar_set in known:
            chosen = [jar_set]
        case _:
            print(f"usage: python -m tidegate.stack.jars fetch [{'|'.join(known)}|all]", file=sys.stderr)
            return ConfigError.exit_code
    try:
        for jar_set in chosen:
            fetch_aloud(jar_set)
    except TidegateError as error:
        print(f"{error}\n{error.remedy}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
