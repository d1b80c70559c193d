"""Fetches files from a web server so that what stands at its final place is whole and is what was asked for.

Invariant: a file gets its name only after its SHA-256 has agreed; everything else is a `.part`, which a later run
goes on with. Standard library only: the bootstrap runs this before any environment exists.
"""

import hashlib
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO

from tidegate.errors import StreamError, TransientError

TRIES = 4
TIMEOUT_SECONDS = 30.0
CHUNK_BYTES = 256 * 1024

Received = Callable[[int], None]
"""Told how many bytes have come in since the last call; below zero when a part had to be thrown away."""


@dataclass(frozen=True, slots=True)
class Wanted:
    url: str
    target: Path
    sha256: str
    size: int

    @property
    def is_there(self) -> bool:
        """The checksum agreed before it got its name; asking for the size again finds a file cut off by a full disk."""
        try:
            return self.target.stat().st_size == self.size
        except OSError:
            return False


def download(wanted: Wanted, received: Received = lambda _bytes: None) -> None:
    """One caller a target at a time: whoever shares the folder holds a lock."""
    wanted.target.parent.mkdir(parents=True, exist_ok=True)
    part = wanted.target.with_name(wanted.target.name + ".part")
    for attempt in range(1, TRIES + 1):
        try:
            _continue(wanted, part, received)
            break
        except (OSError, HTTPException) as error:
            if attempt == TRIES or _is_final(error):
                raise TransientError(
                    f"cannot fetch {wanted.url}: {error}",
                    code="DOWNLOAD_FAILED",
                    remedy="Check the network and run again: it goes on where it stopped.",
                ) from error
    _accept(wanted, part)


def _continue(wanted: Wanted, part: Path, received: Received) -> None:
    have = part.stat().st_size if part.exists() else 0
    if have >= wanted.size:
        received(have)
        return
    request = urllib.request.Request(wanted.url, headers={"Range": f"bytes={have}-"} if have else {})  # noqa: S310
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
        goes_on = have > 0 and answer.status == HTTPStatus.PARTIAL_CONTENT
        received(have if goes_on else 0)
        with part.open("ab" if goes_on else "wb") as stream:
            _copy(answer, stream, received)
    if part.stat().st_size < wanted.size:
        received(-part.stat().st_size)
        raise ConnectionError("the answer ended early")


def _copy(source: BinaryIO, target: BinaryIO, received: Received) -> None:
    while chunk := source.read(CHUNK_BYTES):
        target.write(chunk)
        received(len(chunk))


def _accept(wanted: Wanted, part: Path) -> None:
    with part.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != wanted.sha256:
        part.unlink()
        raise StreamError(
            f"{wanted.url} is not what was locked: SHA-256 {found}, expected {wanted.sha256}",
            code="DOWNLOAD_MISMATCH",
            remedy="Run again; if it stays, the repository serves something else: do not use it.",
        )
    part.replace(wanted.target)


def _is_final(error: Exception) -> bool:
    """An answer such as 404 will not change by asking again."""
    return isinstance(error, urllib.error.HTTPError) and error.code < HTTPStatus.INTERNAL_SERVER_ERROR
