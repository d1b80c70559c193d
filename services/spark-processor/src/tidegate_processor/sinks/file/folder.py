"""The folder of a `file` sink: names, the lock that makes commits one after the other, and what a crash left behind.

    shop.events.000000000007.jsonl        complete, never touched again
    shop.events.000000000008.jsonl.part   being written; counts up to the length that the manifest says
    .shop.events.manifest                 cursor, number, length; replaced with each commit
    .shop.events.lock                     held while a commit writes, let go by the kernel if its holder dies

Invariant: only who holds the lock and has the manifest's fence writes. A complete file has exactly the bytes that were
committed to it.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tidegate.errors import StreamError, TransientError
from tidegate_processor.sinks.file.manifest import Manifest, read_manifest, sync_folder, write_manifest

_LOCK_SECONDS = 10.0
_LOOK_SECONDS = 0.05
_NUMBER_DIGITS = 12


class Folder:
    def __init__(self, path: Path, stem: str, suffix: str) -> None:
        self._path, self._stem, self._suffix = path, stem, suffix
        self._manifest = path / f".{stem}.manifest"

    def look(self) -> Manifest | None:
        with mapped("read the manifest"):
            return read_manifest(self._manifest)

    def try_out(self) -> None:
        """Whether files can be made and are kept; leaves none behind."""
        with mapped("write into the folder"):
            self._path.mkdir(parents=True, exist_ok=True)
            trial = self._path / f".{self._stem}.trial"
            trial.write_bytes(b"")
            trial.unlink()

    def take_over(self) -> Manifest:
        """Whoever wrote before can't any more; what it did not commit is gone."""
        with mapped("open the folder"):
            self._path.mkdir(parents=True, exist_ok=True)
            with self._locked():
                before = read_manifest(self._manifest) or Manifest(number=self._next_number())
                self._mend(before)
                manifest = replace(self._in_our_form(before), fence=before.fence + 1)
                write_manifest(self._manifest, manifest)
                self._finish(manifest)
        return manifest

    def commit(self, mine: Manifest, data: bytes, after: Manifest) -> None:
        """`data` behind what `mine` says, then `after` in its place. All of it is on disk when it returns."""
        with mapped("commit"), self._locked():
            there = read_manifest(self._manifest)
            if there is None or there.fence != mine.fence:
                raise _overtaken()
            if data:
                self._append(mine, data)
            write_manifest(self._manifest, after)
            self._finish(after)

    def _append(self, mine: Manifest, data: bytes) -> None:
        part = self._part(mine.number)
        with part.open("r+b" if mine.length else "wb") as file:
            file.seek(0, os.SEEK_END)
            self._check_length(part, file.tell(), mine.length)
            file.truncate(mine.length)
            file.seek(mine.length)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def _mend(self, manifest: Manifest) -> None:
        """What was written and not committed, and a complete file that has not got its name yet."""
        self._finish(manifest)
        part = self._part(manifest.number)
        if manifest.length == 0:
            part.unlink(missing_ok=True)
            return
        there = part.stat().st_size if part.exists() else 0
        self._check_length(part, there, manifest.length)
        os.truncate(part, manifest.length)

    def _in_our_form(self, manifest: Manifest) -> Manifest:
        """A file that was begun under another compression is complete."""
        if manifest.length == 0 or self._part(manifest.number).name.endswith(f"{self._suffix}.part"):
            return replace(manifest, complete_number=0, complete_length=0)
        return manifest.completed

    def _finish(self, manifest: Manifest) -> None:
        part = self._part(manifest.complete_number)
        if manifest.complete_number and part.exists():
            self._check_length(part, part.stat().st_size, manifest.complete_length)
            os.truncate(part, manifest.complete_length)
            part.replace(part.with_suffix(""))
            sync_folder(self._path)

    @staticmethod
    def _check_length(part: Path, there: int, committed: int) -> None:
        if there < committed:
            raise StreamError(
                f"{part.name} has {there} bytes, {committed} were committed",
                code="SINK_FILE_DAMAGED",
                remedy="Somebody cut or removed the file that is being written, or the disk lost it. Give the sink "
                "another folder and rewind it to where its files end.",
            )

    def _part(self, number: int) -> Path:
        stem = f"{self._stem}.{number:0{_NUMBER_DIGITS}}"
        return next(self._path.glob(f"{stem}.*.part"), self._path / f"{stem}{self._suffix}.part")

    def _next_number(self) -> int:
        """Without a manifest, files of another one may be there: they are never written to again."""
        names = [path.name.removeprefix(f"{self._stem}.") for path in self._path.glob(f"{self._stem}.*")]
        return 1 + max((int(name[:_NUMBER_DIGITS]) for name in names if name[:_NUMBER_DIGITS].isdecimal()), default=0)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        descriptor = os.open(self._path / f".{self._stem}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            _lock(descriptor)
            yield
        finally:
            os.close(descriptor)


def _lock(descriptor: int) -> None:
    """A holder that stands still, as a stopped process does, is not waited for without end."""
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TransientError(
                    "another writer holds the folder's lock",
                    code="SINK_FILE_LOCKED",
                    remedy="If a worker of this lane hangs, end it; the lane comes again by itself.",
                ) from None
            time.sleep(_LOOK_SECONDS)


@contextmanager
def mapped(doing: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TransientError(
            f"the file sink could not {doing} ({os.strerror(error.errno or 0)})",
            code="SINK_FILE_IO",
            remedy="Check the folder, its rights and the room on its disk; the lane restarts at its cursor.",
        ) from error


def _overtaken() -> TransientError:
    return TransientError(
        "a newer writer has taken the folder over",
        code="SINK_FENCED",
        remedy="Nothing: the newer one goes on from the committed cursor.",
    )
