"""Files that are complete, files that are not, and what a crash, a full disk or somebody's hand leaves behind."""

import gzip
import json
import resource
from dataclasses import replace
from pathlib import Path

import pytest
from kit.frames import RawLog, row
from kit.sink_rigs import SINK, FileRig, cursor_behind, wal_frames
from kit.wait import wait
from pydantic import ValidationError

from tidegate.contracts.frame import Frame
from tidegate.errors import StreamError, TransientError
from tidegate.position import BEGINNING
from tidegate_processor.sinks.file.config import FileOptions
from tidegate_processor.sinks.file.manifest import read_manifest, write_manifest


@pytest.fixture
def rig(prefix: str, kafka, tmp_path: Path) -> FileRig:
    return FileRig(prefix, kafka.bootstrap, "redis://127.0.0.1:1", tmp_path)


def frames(count: int, note: str = "x" * 1000) -> list[Frame]:
    log = RawLog()
    log.epoch()
    for at in range(count):
        log.transaction(row(at, note))
    return wal_frames(log)


def deliver(rig: FileRig, to_deliver: list[Frame], **options: object) -> None:
    sink = rig.make(rig.configured(**options))
    sink.open()
    for frame in to_deliver:
        sink.write(frame, BEGINNING)
        sink.commit(cursor_behind(frame))
    sink.close()


def files(rig: FileRig) -> list[Path]:
    return sorted((rig.folder / "files").glob(f"{rig.prefix}.*"))


def part(rig: FileRig) -> Path:
    return next(path for path in files(rig) if path.suffix == ".part")


def test_a_file_that_is_large_enough_is_complete_and_the_next_one_begins(rig: FileRig) -> None:
    deliver(rig, frames(10), rotate_bytes="4KiB")

    names = [path.name.removeprefix(f"{rig.prefix}.{SINK}.") for path in files(rig)]
    assert names == ["000000000001.jsonl", "000000000002.jsonl", "000000000003.jsonl", "000000000004.jsonl.part"]
    assert all(4096 <= path.stat().st_size < 2 * 4096 for path in files(rig)[:3])
    assert sorted(rig.rows()) == list(range(10))


def test_a_file_that_is_old_enough_is_complete_once_something_is_committed_behind_it(rig: FileRig) -> None:
    first, second = frames(2)
    sink = rig.make(rig.configured(rotate_after="1s"))
    sink.open()
    sink.write(first, BEGINNING)
    sink.commit(cursor_behind(first))
    before = [path.suffix for path in files(rig)]

    def is_complete() -> bool:
        sink.commit(cursor_behind(second))
        return [path.suffix for path in files(rig)] == [".jsonl"]

    wait(is_complete, 10, "the file is complete")
    sink.close()

    assert before == [".part"]


def test_what_a_crash_wrote_behind_the_manifest_is_cut_off(rig: FileRig) -> None:
    deliver(rig, frames(1))
    with part(rig).open("ab") as file:
        file.write(b'{"id":"half an ev')

    sink = rig.make()
    sink.open()
    sink.close()

    assert part(rig).read_bytes().count(b"\n") == 1
    assert part(rig).read_bytes().endswith(b"}\n")


def test_a_crash_before_a_complete_file_got_its_name_is_made_good(rig: FileRig) -> None:
    deliver(rig, frames(1))
    manifest = rig.folder / f"files/.{rig.prefix}.{SINK}.manifest"
    written = read_manifest(manifest)
    assert written is not None
    write_manifest(manifest, written.completed)

    deliver(rig, [replace(each) for each in frames(2)[1:]])

    assert [path.name.partition(f"{SINK}.")[2] for path in files(rig)] == [
        "000000000001.jsonl",
        "000000000002.jsonl.part",
    ]
    assert sorted(rig.rows()) == [0, 1]


@pytest.mark.parametrize("left", [0, 10])
def test_a_file_that_somebody_cut_stops_the_lane(rig: FileRig, left: int) -> None:
    deliver(rig, frames(1))
    if left:
        with part(rig).open("r+b") as file:
            file.truncate(left)
    else:
        part(rig).unlink()

    with pytest.raises(StreamError) as raised:
        rig.make().open()

    assert raised.value.code == "SINK_FILE_DAMAGED"


def test_without_its_manifest_a_folder_has_no_cursor_and_its_files_are_left_alone(rig: FileRig) -> None:
    deliver(rig, frames(3), rotate_bytes="4KiB")
    before = {path: path.read_bytes() for path in files(rig)}
    (rig.folder / f"files/.{rig.prefix}.{SINK}.manifest").unlink()

    sink = rig.make()
    assert sink.open() is None
    (frame,) = frames(1)
    sink.write(frame, BEGINNING)
    sink.commit(cursor_behind(frame))
    sink.close()

    assert {path: path.read_bytes() for path in before} == before
    assert len(files(rig)) == len(before) + 1


def test_another_compression_begins_another_file(rig: FileRig) -> None:
    first, second = frames(2)
    deliver(rig, [first])
    deliver(rig, [second], compression="gzip")

    plain, packed = files(rig)
    assert [path.name.partition(f"{SINK}.")[2] for path in (plain, packed)] == [
        "000000000001.jsonl",
        "000000000002.jsonl.gz.part",
    ]
    assert json.loads(plain.read_bytes())["payload"]["row"]["id"] == 0
    assert json.loads(gzip.decompress(packed.read_bytes()))["payload"]["row"]["id"] == 1


def test_a_disk_without_room_commits_nothing_and_the_next_one_goes_on(rig: FileRig) -> None:
    """A limit of the process stands for the full disk: both refuse in the middle of a write."""
    first, second = frames(2)
    deliver(rig, [first])
    sink = rig.make()
    sink.open()
    sink.write(second, first.header.last)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (part(rig).stat().st_size + 100, hard))
    try:
        with pytest.raises(TransientError) as raised:
            sink.commit(cursor_behind(second))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sink.close()

    assert raised.value.code == "SINK_FILE_IO"
    assert rig.cursor() == cursor_behind(first)
    deliver(rig, [second])
    assert len(rig.ids()) == len(set(rig.ids())) == 2


@pytest.mark.parametrize("path", ["relative/path", "/var/../etc", "x"])
def test_a_folder_that_is_not_named_from_the_root_is_refused(path: str) -> None:
    with pytest.raises(ValidationError):
        FileOptions(path=path)
