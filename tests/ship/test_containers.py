"""What stands between a service and Docker: supervisor, probe, and what compose.yaml and the Dockerfiles promise."""

import os
import re
import runpy
import signal
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyspark
import pytest
import yaml

from ship.queries import ROOT

ROOT_FOLDER = ROOT / "docker" / "root.py"
SUPERVISE = ROOT / "docker" / "supervise.py"
PROBE = ROOT / "docker" / "probe.py"
DOCKERFILES = sorted(ROOT.glob("services/*/Dockerfile"))
UNTIL_TOLD = (
    "import signal, sys; signal.signal(15, lambda *_: sys.exit({code})); print('up', flush=True); signal.pause()"
)
ONE_SHOTS = {"secrets", "shop-tables"}
SILENT = {"shop", "tail"}
"""They serve nothing: that they run is all that can be asked."""


def supervised(code: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-I", SUPERVISE, sys.executable, "-c", code]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("ends", "expected"), [("exit(0)", 0), ("exit(1)", 1), ("import os; os.kill(os.getpid(), 9)", 1)]
)
def test_what_may_start_again_ends_with_it(ends: str, expected: int) -> None:
    process = supervised(ends)
    process.communicate(timeout=20)
    assert expected == process.returncode


@pytest.mark.parametrize("code", [2, 3])
def test_what_a_person_decides_is_held_until_somebody_tells_it_to_stop(code: int) -> None:
    process = supervised(f"exit({code})")
    assert process.stderr is not None
    assert process.stderr.readline().startswith("held: ")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0.5)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert code == process.returncode


@pytest.mark.parametrize("code", [0, 3])
def test_a_service_that_is_told_to_stop_says_how_it_ended(code: int) -> None:
    process = supervised(UNTIL_TOLD.format(code=code))
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert code == process.returncode


HUNG_UP = """
import signal
signal.signal(1, lambda *_: print("again", flush=True))
print("up", flush=True)
while True: signal.pause()
"""


def test_a_service_reads_its_file_again_when_its_container_is_told() -> None:
    """`docker compose kill -s HUP` reaches the first process of the container alone."""
    process = supervised(HUNG_UP)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    for _ in range(2):
        process.send_signal(signal.SIGHUP)
        assert process.stdout.readline() == "again\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 1, "the service of this test dies of it; the supervisor has not ended before"


def test_what_starts_the_processor_is_replaced_by_it(tmp_path: Path) -> None:
    """A shell that stayed would keep every signal to itself."""
    start = ROOT / "docker" / "processor-start.sh"
    environ = {"PATH": os.environ["PATH"], "NUMBA_CACHE_DIR": str(tmp_path)}
    command = ["sh", start, sys.executable, "-c", "import os; print(os.getpid())"]
    process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True)
    assert process.communicate(timeout=20)[0] == f"{process.pid}\n"


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(int(self.path.removeprefix("/")))
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("path", "expected"), [("/200", 0), ("/503", 1)])
def test_the_probe_goes_by_the_answer(address: str, path: str, expected: int) -> None:
    assert expected == subprocess.run([sys.executable, "-I", PROBE, address + path], capture_output=True).returncode


def test_the_probe_fails_where_nobody_answers() -> None:
    assert subprocess.run([sys.executable, "-I", PROBE, "http://127.0.0.1:1/"], capture_output=True).returncode == 1


def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    return found


@pytest.mark.parametrize("name", services())
def test_a_service_of_compose_is_bounded_checked_and_private(name: str) -> None:
    service = services()[name]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    assert "container_name" not in service, "two stacks would collide"
    if name not in ONE_SHOTS:
        assert "mem_limit" in service
        assert service["restart"] == "unless-stopped"
        assert name in SILENT or name == "admin" or "test" in service["healthcheck"], "admin has its image's"


def test_every_image_has_a_version() -> None:
    images = re.findall(r"^IMAGE_\w+=(.*)$", (ROOT / ".env").read_text(), re.MULTILINE)
    assert images
    assert all(re.search(r":[^:]*\d", image) for image in images)


def test_no_secret_stands_in_a_file_of_the_stack() -> None:
    files = (ROOT / "compose.yaml", ROOT / ".env", *(ROOT / "docker").rglob("*.yaml"))
    value = r"(?im)^\s*\w*(?:password|token|secret_key)\w*\s*[:=]\s*(?!\$|/|\{)[\"']?\w{6,}"
    assert [path.name for path in files if re.search(value, path.read_text())] == []


def test_compose_builds_what_make_images_builds() -> None:
    """Of the same files, to the same names, and with arguments that these know."""
    makefile = (ROOT / "Makefile").read_text()
    (version,) = re.findall(r"^VERSION := (\S+)$", makefile, re.MULTILINE)
    built = [service for service in services().values() if "build" in service]
    assert len(built) == len(DOCKERFILES)
    for service in built:
        path, image = service["build"]["dockerfile"], service["image"].partition(":-")[2].rstrip("}")
        assert f" -f {path} -t {image} ." in makefile.replace("$(VERSION)", version)
        known = re.findall(r"^ARG (\w+)", (ROOT / path).read_text(), re.MULTILINE)
        assert set(service["build"]["args"]) <= set(known)


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_an_image_runs_as_nobody_in_particular_and_says_what_it_is(path: Any) -> None:
    text = path.read_text()
    assert "\nUSER 10001:10001\n" in text
    assert "--require-hashes" in text
    assert re.search(r"^HEALTHCHECK ", text, re.MULTILINE)
    assert re.search(r"^ENTRYPOINT \[", text, re.MULTILINE), "exec form: signals reach the service"
    assert "org.opencontainers.image.revision" in text
    assert "# syntax=" not in text, "it would have to be pulled"


ENOUGH = """
import asyncio, ctypes, decimal, hashlib, lzma, pathlib, pwd, socket, sqlite3, ssl, threading, uuid, zoneinfo
asyncio.run(asyncio.to_thread(ssl.create_default_context))
others = map(pathlib.Path, ("/bin/sh", "/usr/bin/sh", "/bin/ls", "/usr/bin/apt", "/etc/shadow"))
print(pwd.getpwuid(10001).pw_name, *filter(pathlib.Path.exists, others))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change its root")
def test_a_root_folder_is_enough_for_a_python_and_holds_nothing_else(tmp_path: Path) -> None:
    app, folder = tmp_path / "app", tmp_path / "root"
    base = Path(sys.executable).resolve()
    subprocess.run([base, "-m", "venv", "--without-pip", app], check=True)
    subprocess.run([base, "-I", ROOT_FOLDER, folder, app], check=True)
    command = ["chroot", "--userspec=10001:10001", folder, app / "bin" / "python", "-I", "-c", ENOUGH]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("tidegate\n", "")


def test_an_executor_is_started_by_what_spark_says() -> None:
    program = runpy.run_path(str(ROOT / "docker" / "executor.py"))
    told = {name: name.lower() for name in program["TOLD"].values()}
    options = {"SPARK_JAVA_OPT_0": "-Da=b c", "SPARK_JAVA_OPT_1": "-Dd=e", "SPARK_EXECUTOR_MEMORY": "512m"}
    command = program["command"](told | options, "/java", Path("/jars"))
    assert command[:6] == ["/java", "-Da=b c", "-Dd=e", "-Dspark.master=k8s://", "-Xms512m", "-Xmx512m"]
    assert command[6:9] == ["-cp", "/jars/*", program["BACKEND"]]
    assert dict(zip(command[9::2], command[10::2], strict=True)) == {
        option: name.lower() for option, name in program["TOLD"].items()
    }


def test_spark_tells_an_executor_what_is_asked_for() -> None:
    """By the names in Spark's own classes: a new version may call them otherwise."""
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("spark-kubernetes_*.jar")
    with zipfile.ZipFile(jar) as archive:
        constants = archive.read("org/apache/spark/deploy/k8s/Constants$.class")
    names = runpy.run_path(str(ROOT / "docker" / "executor.py"))["TOLD"].values()
    assert {name for name in names if name.encode() not in constants} == set()
