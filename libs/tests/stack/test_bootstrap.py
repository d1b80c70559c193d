"""The bootstrap finds uv without any installer, and does again only what has changed."""

import hashlib
import importlib.util
import io
import platform
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).parents[3] / "tools"


@pytest.fixture
def tools(monkeypatch) -> ModuleType:
    """`bootstrap`, loaded as the script it is."""
    monkeypatch.syspath_prepend(str(TOOLS))
    specification = importlib.util.spec_from_file_location("bootstrap", TOOLS / "bootstrap.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    yield module
    sys.modules.pop("uv_wheel", None)


def wheel(text: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("uv-9.9.9.data/scripts/uv", text)
    return packed.getvalue()


@pytest.fixture
def index(monkeypatch) -> Iterator[dict[str, bytes]]:
    """A package index with wheels of uv by name; one whose name starts with `yanked-` was withdrawn."""
    files: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer()

        def do_GET(self) -> None:
            self.wfile.write(self._answer())

        def _answer(self) -> bytes:
            body = page(files) if self.path.endswith("/uv/") else files[self.path.rpartition("/")[2]]
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            return body

        def log_message(self, format: str, *arguments: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"http://127.0.0.1:{server.server_port}/simple")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield files
        server.shutdown()
        thread.join()


def page(files: dict[str, bytes]) -> bytes:
    links = []
    for name, body in files.items():
        yanked = ' data-yanked=""' if "-2.0.0-" in name else ""
        links.append(f'<a href="../../files/{name}#sha256={hashlib.sha256(body).hexdigest()}"{yanked}>{name}</a>')
    return "<br/>".join(links).encode()


def named(version: str, machine: str = platform.machine()) -> str:
    return f"uv-{version}-py3-none-manylinux_2_17_{machine}.manylinux2014_{machine}.whl"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the wheels named here are for glibc")
def test_uv_comes_out_of_the_newest_wheel_for_this_machine(tools, index, tmp_path):
    """Not a withdrawn one, not a pre-release, not another machine's; and it may be run."""
    for version, machine in (
        ("1.9.0", None),
        ("1.10.0", None),
        ("1.11.0", "vax"),
        ("1.12.0rc1", None),
        ("2.0.0", None),
    ):
        index[named(version, machine or platform.machine())] = wheel(f"#!/bin/sh\necho uv {version}\n")
    uv = tools.uv_wheel.fetch(tmp_path)
    assert subprocess.run([uv], capture_output=True, text=True, check=True).stdout == "uv 1.10.0\n"
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


def test_an_index_without_a_wheel_for_this_machine_is_told(tools, index, tmp_path):
    """With where to get it."""
    index[named("1.9.0", "vax")] = wheel("")
    with pytest.raises(tools.Missing, match="install uv"):
        tools.uv_wheel.fetch(tmp_path)


@pytest.fixture
def checkout(tools, tmp_path, monkeypatch) -> Path:
    (tmp_path / ".cache").mkdir()
    spark = "services/spark-processor/src/tidegate_processor/spark"
    for name in (
        "uv.lock",
        ".python-version",
        "pyproject.toml",
        "libs/pyproject.toml",
        "libs/src/tidegate/stack/jars.toml",
        *("tools/archive_spark.py", f"{spark}/session.py", f"{spark}/class_archive.py"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(tools, "ROOT", tmp_path)
    monkeypatch.setattr(tools, "CACHE", tmp_path / ".cache")
    monkeypatch.setattr(tools, "STAMP", tmp_path / ".cache" / "bootstrap.json")
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "again"),
    [
        ("uv.lock", ["environment", "kernels", "classes"]),
        ("libs/pyproject.toml", ["environment"]),
        ("libs/src/tidegate/stack/jars.toml", ["jars", "classes"]),
        ("tools/archive_spark.py", ["classes"]),
        ("made", ["environment", "java", "jars", "kernels", "classes"]),
    ],
)
def test_only_what_has_changed_or_gone_is_done_again(tools, checkout, changed, again):
    """The stamp knows the inputs of each part, and what each has made."""
    (checkout / "made").touch()
    assert tools.open_parts(tools.PARTS) == list(tools.PARTS)
    for part in tools.PARTS:
        tools.remember(part, [checkout / "made"])
    assert tools.open_parts(tools.PARTS) == []
    path = checkout / changed
    path.unlink() if changed == "made" else path.write_text("changed")
    assert tools.open_parts(tools.PARTS) == again


def test_a_torn_stamp_means_from_the_start(tools, checkout):
    """Cut off while it was written, or written by another version."""
    for content in ("", "[]", '{"java": 1}'):
        tools.STAMP.write_text(content)
        assert tools.open_parts(["java"]) == ["java"]


def test_a_missing_java_names_the_command_and_exits_2(tools, checkout, monkeypatch, capsys):
    """One message, and nothing is tried that needs root."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(checkout))
    monkeypatch.setattr("tidegate.stack.jvm.INSTALLATIONS", checkout)
    assert tools.main(["java"]) == 2
    assert "apt-get install -y --no-install-recommends openjdk-17-jre-headless" in capsys.readouterr().err
