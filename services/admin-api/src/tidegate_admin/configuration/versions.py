"""A configuration's file and every version that was applied through this service, beside it.

    pipeline.yaml            what services read when they start
    pipeline.yaml.versions/  000001.json, 000002.json, …: text, who, when, and where the pipeline stood

Invariant: the file is replaced whole, and only by one whose author has seen what stands in it. A version is written
before the file is: one that a crash cuts off is listed and is not what the file says, and changes nothing.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path

from tidegate_admin.errors import ApiError

MOST_KEPT = 100


@dataclass(frozen=True, slots=True)
class Version:
    number: int
    digest: str
    """Of the text."""
    epoch: str
    """What it means; two texts may mean the same."""
    by: str
    time: int
    """Unix microseconds."""
    raw_offset: int | None
    """The last frame that the raw topic had then: what stands before it was written under the version before."""
    text: str


class Versions:
    """Calls block for as long as the disk does."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._folder = file.with_name(f"{file.name}.versions")

    def text(self) -> str:
        try:
            return self._file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise _unreadable() from error

    def listed(self) -> list[Version]:
        """The newest first. What is no version is left out."""
        found = []
        for path in sorted(self._folder.glob("[0-9]*.json"), reverse=True):
            try:
                found.append(Version(**json.loads(path.read_text(encoding="utf-8"))))
            except (OSError, ValueError, TypeError):
                continue
        return found

    @contextmanager
    def changing(self) -> Iterator[None]:
        """One at a time, of all instances that share the disk."""
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            with (self._folder / "lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
        except OSError as error:
            raise read_only() from error

    def keep(self, new: Version) -> None:
        self._write(self._folder / f"{new.number:06}.json", json.dumps(asdict(new)), 0o600)
        for old in sorted(self._folder.glob("[0-9]*.json"))[:-MOST_KEPT]:
            old.unlink()

    def put(self, text: str) -> None:
        self._write(self._file, text, self._file.stat().st_mode & 0o777)

    def _write(self, path: Path, text: str, mode: int) -> None:
        beside = path.with_name(f".{path.name}.new")
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_only() -> ApiError:
    return ApiError(
        HTTPStatus.CONFLICT,
        "this service cannot write the configuration's file",
        code="CONFIGURATION_READ_ONLY",
        remedy="Change it where it comes from: the chart's values, or the file that is mounted; then restart what the "
        "difference names.",
    )


def _unreadable() -> ApiError:
    return ApiError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "the configuration's file cannot be read",
        code="CONFIGURATION_UNREADABLE",
        remedy="Look whether it is there still, and whether this service may read it.",
    )
