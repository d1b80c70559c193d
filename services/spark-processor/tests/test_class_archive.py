"""An archive of classes makes a start shorter, and is never what a start fails by."""

import subprocess
from pathlib import Path

import pytest

from tidegate.stack.jvm import find_java
from tidegate_processor.spark import class_archive


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    place = class_archive.place()
    place.parent.mkdir(parents=True)
    return place


def java(options: str) -> subprocess.CompletedProcess[str]:
    command = [str(find_java()), *options.replace('"', "").split(), "-cp", "nothing", "-version"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_without_an_archive_java_is_told_of_none(place: Path) -> None:
    assert class_archive.java_options(None) == ""


@pytest.mark.parametrize("content", [b"", b"torn", bytes(100_000)])
def test_an_archive_that_is_damaged_is_passed_over_in_silence(place: Path, content: bytes) -> None:
    place.write_bytes(content)

    done = java(class_archive.java_options(None))

    assert (done.returncode, done.stdout) == (0, "")
    assert "warning" not in done.stderr.lower()


def test_an_archive_of_other_jars_is_passed_over_in_silence(place: Path, tmp_path: Path) -> None:
    made = java(class_archive.java_options(place))
    assert made.returncode == 0, made.stderr
    assert place.is_file()

    command = [str(find_java()), *class_archive.java_options(None).replace('"', "").split(), "-cp", str(tmp_path)]
    done = subprocess.run([*command, "-version"], capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stdout) == (0, "")
    assert "warning" not in done.stderr.lower()


def test_the_class_path_is_the_same_whatever_the_order_of_the_folder() -> None:
    path = class_archive.class_path(("further.jar",))

    assert path[-1] == "further.jar"
    assert sorted(path[:-1]) == path[:-1]
    assert any("spark-core" in jar for jar in path)
