"""What of the files counts: the cursor, and how much of which file was committed with it.

Invariant: the manifest is replaced as a whole or not at all, and what it says is on disk before it says so. A file's
bytes beyond its length in the manifest were never committed.
"""

import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tidegate.contracts.cursor import Cursor, decode_cursor
from tidegate.contracts.document import build
from tidegate.contracts.sealed import seal, unseal
from tidegate.errors import DecodeError


@dataclass(frozen=True, slots=True)
class Manifest:
    fence: int = 0
    """Grows with each opening: who has an older one may not commit."""
    number: int = 1
    """Of the file that is being written."""
    length: int = 0
    begun: int = 0
    """When its first bytes were committed, in seconds since 1970."""
    complete_number: int = 0
    """The file before, which may not have its final name yet; 0: there is none."""
    complete_length: int = 0
    cursor: str = ""

    @property
    def place(self) -> Cursor | None:
        return decode_cursor(self.cursor) if self.cursor else None

    @property
    def completed(self) -> "Manifest":
        """The file that is being written is complete, the next one is empty."""
        return replace(
            self,
            number=self.number + 1,
            length=0,
            begun=0,
            complete_number=self.number,
            complete_length=self.length,
        )

    def encode(self) -> bytes:
        return seal(asdict(self))


def decode_manifest(data: bytes) -> Manifest:
    try:
        return build(Manifest, unseal(data))
    except ValueError:
        raise DecodeError("this manifest lacks what a manifest must say", code="SINK_FILE_MANIFEST") from None


def read_manifest(path: Path) -> Manifest | None:
    try:
        return decode_manifest(path.read_bytes())
    except FileNotFoundError:
        return None


def write_manifest(path: Path, manifest: Manifest) -> None:
    """The folder is on disk afterwards too, and with it the names of new files."""
    scratch = path.with_name(f"{path.name}.new")
    with scratch.open("wb") as file:
        file.write(manifest.encode())
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
