"""The files of a second sink, as somebody else reads them, against the topics; and a disk of their own, to be filled.

Invariant: of a file that is being written only what its manifest counts is read.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from chaos.fleet import tables
from chaos.fleet.deliveries import Deliveries
from chaos.fleet.field import Field
from kit.wait import wait

from tidegate.lsn import parse_lsn

_DISK_BYTES = 256 * 2**20
_CHANGES = ("INSERT", "UPDATE", "DELETE", "TRUNCATE")
_Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Disk:
    folder: Path

    def fill(self) -> None:
        """A file that takes all there is, to the last page."""
        with (self.folder / "filler").open("wb", buffering=0) as filler:
            for size in (2**16, 2**12):
                with suppress(OSError):
                    while True:
                        filler.write(bytes(size))

    def free(self) -> None:
        (self.folder / "filler").unlink()


@contextmanager
def small_disk(field: Field) -> Iterator[Disk]:
    """In memory, mounted where the field's files go: for who may mount."""
    folder = field.rig.folder / "files"
    folder.mkdir(mode=0o755, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "tmpfs", str(folder)], check=True)
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def folder(field: Field, sink: str) -> Path:
    return field.rig.folder / "files" / sink


def compare(field: Field, sink: str, seconds: float) -> None:
    """Raises as a violation if the files lack what the topics have behind their first event, or hold it twice."""
    field.load.pause()
    marker = field.own_id()
    field.rig.sql("INSERT INTO fleeting VALUES (%s, 'last')", marker)
    last = {"id": tables.Number(str(marker)), "token": "last"}
    wait(lambda: any(row == last for _, _, row in _lines(field, sink)), seconds, "I7: the files have the last row", 0.5)
    written = [(place, identity) for place, identity, _ in _lines(field, sink)]
    places = [place for place, _ in written]
    assert places == sorted(set(places)), "I4: the files are not in the order of commits, or hold an event twice"
    missing = {identity for place, identity in _delivered(field) if place >= places[0]} - {each for _, each in written}
    assert not missing, f"I1: {len(missing)} events that the topics have are not in the files"
    field.load.resume()


def _delivered(field: Field) -> list[tuple[_Place, str]]:
    """By a consumer of its own, from the beginning."""
    deliveries = Deliveries(field.servers.kafka.bootstrap, field.pipeline)
    try:
        return [(each.position, each.event["id"]) for each in deliveries.settle() if each.kind in _CHANGES]
    finally:
        deliveries.close()


def _lines(field: Field, sink: str) -> list[tuple[_Place, str, object]]:
    """Place, id and row of each event of a table; what is about tables has no row."""
    found: list[tuple[_Place, str, object]] = []
    place = folder(field, sink)
    for file in sorted(place.glob("*.jsonl")):
        found += _parsed(file.read_bytes())
    manifest = next(place.glob(".*.manifest"), None)
    for file in sorted(place.glob("*.part")):
        found += _parsed(file.read_bytes()[: _counted(manifest, file)])
    return found


def _counted(manifest: Path | None, part: Path) -> int:
    return int(json.loads(manifest.read_text())["length"]) if manifest and part.exists() else 0


def _parsed(content: bytes) -> list[tuple[_Place, str, object]]:
    events = [tables.parse(line) for line in content.splitlines()]
    return [
        (
            (int(parse_lsn(event["position"]["commit_lsn"])), int(event["position"]["ordinal"].digits)),
            event["id"],
            event["payload"].get("row"),
        )
        for event in events
        if event["operation"] in _CHANGES
    ]
