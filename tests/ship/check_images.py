"""The three images on a real engine: small, nobody in particular, complete: nothing is fetched or compiled at start.

Not part of `make test`: `make test-compose` builds them first.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ship.queries import ROOT

VERSION = "0.1.0"
MOST_MEGABYTES = {"reader": 150, "admin": 200}
"""Of the whole image, unpacked."""
PROCESSOR_ADDS_MEGABYTES = 1130
"""To its base image, which it needs whole."""
WARM = """
import os, pathlib, sys
cache = pathlib.Path(os.environ["NUMBA_CACHE_DIR"])
before = {(path, path.stat().st_mtime_ns) for path in cache.rglob("*.nb*")}
from tidegate.columns import warm
warm()
after = {(path, path.stat().st_mtime_ns) for path in cache.rglob("*.nb*")}
print(len(before), len(after - before))
"""
HOLDS = """
import hashlib, importlib.metadata, pathlib, re
for each in importlib.metadata.distributions():
    print(re.sub("[-_.]+", "-", each.metadata["Name"]).lower(), each.version)
for path in pathlib.Path("/app").rglob("pyspark/jars/*.jar"):
    print(hashlib.sha256(path.read_bytes()).hexdigest())
"""
SHELLS = ("/bin/sh", "/bin/bash", "/usr/bin/sh", "/usr/bin/apt", "/usr/bin/perl")
JARS = """
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
for name in ("spark.driver.host", "spark.driver.bindAddress"):
    builder = builder.config(name, "127.0.0.1")
session = builder.getOrCreate()
for name in ("sql.kafka010.KafkaSourceProvider", "scheduler.cluster.k8s.KubernetesExecutorBackend"):
    print(session._jvm.java.lang.Class.forName("org.apache.spark." + name).getSimpleName())
"""
IMPORTS = {
    "reader": "import psycopg, aiokafka, redis, tidegate_reader.main, tidegate_reader.service; psycopg.pq.version()",
    "admin": "import psycopg, aiokafka, redis, fastapi, tidegate_admin.main; psycopg.pq.version()",
    "processor": "import psycopg, confluent_kafka, redis, pyarrow, tidegate_processor.main, tidegate_processor.stage;"
    " import tidegate_processor.sinks.pg_table.writer, tidegate_processor.sinks.file.writer; psycopg.pq.version()",
}

pytestmark = pytest.mark.timeout(300)


def image(service: str) -> dict[str, Any]:
    done = subprocess.run(
        ["docker", "image", "inspect", f"tidegate-{service}:{VERSION}"], capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)[0]
    return found


def run(service: str, *command: str) -> str:
    """As compose and the chart run it, and with nobody to fetch anything from."""
    # Without a network nothing else resolves the container's name, which Spark asks for.
    alone = ("--network", "none", "--hostname", "localhost")
    hard = (*alone, "--read-only", "--tmpfs", "/tmp:exec,mode=1777", "--cap-drop", "ALL")
    entry, *rest = command
    arguments = ("docker", "run", "--rm", *hard, "--entrypoint", entry, f"tidegate-{service}:{VERSION}", *rest)
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("service", IMPORTS)
def test_an_image_says_what_it_is_and_runs_as_nobody_in_particular(service: str) -> None:
    config = image(service)["Config"]
    assert config["User"] == "10001:10001"
    assert config["Healthcheck"]["Test"][0] == "CMD"
    assert config["Entrypoint"][0].startswith("/")
    labels = {name.removeprefix("org.opencontainers.image."): value for name, value in config["Labels"].items()}
    assert labels["title"] == f"tidegate-{service}"
    assert labels["version"] == VERSION
    assert re.fullmatch("[0-9a-f]{40}", labels["revision"])
    assert labels["created"] != "unknown"


@pytest.mark.parametrize(("service", "most"), MOST_MEGABYTES.items())
def test_an_image_is_small(service: str, most: int) -> None:
    whole = image(service)["Size"] / 1e6
    print(f"tidegate-{service}: {whole:.0f} MB")
    assert whole <= most


def test_the_processor_adds_little_to_its_base() -> None:
    base = re.findall(r"^IMAGE_PYTHON=(.*)$", (ROOT / ".env").read_text(), re.MULTILINE)[0]
    done = subprocess.run(
        ["docker", "image", "inspect", "-f", "{{.Size}}", base], capture_output=True, text=True, check=True
    )
    own = (image("processor")["Size"] - int(done.stdout)) / 1e6
    print(f"tidegate-processor adds {own:.0f} MB to {base}")
    assert own <= PROCESSOR_ADDS_MEGABYTES


@pytest.mark.parametrize("service", MOST_MEGABYTES)
def test_whoever_gets_into_a_small_image_finds_no_shell(service: str) -> None:
    said = run(
        service,
        "/app/bin/python",
        "-I",
        "-c",
        f"import pathlib; print([*filter(pathlib.Path.exists, map(pathlib.Path, {SHELLS}))])",
    )
    assert said == "[]\n"


@pytest.mark.parametrize("service", IMPORTS)
def test_what_a_service_imports_is_there(service: str) -> None:
    run(service, "/app/bin/python", "-I", "-c", IMPORTS[service])


@pytest.mark.parametrize("service", IMPORTS)
def test_an_image_holds_what_its_bill_of_materials_says_and_nothing_else(service: str, tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "tools" / "sbom.py", "--into", tmp_path], check=True, capture_output=True)
    bill = json.loads((tmp_path / f"tidegate-{service}.cdx.json").read_text())["components"]
    # What pyspark and jars.toml bring is known by what is in it, Python's packages by name and version.
    jars = {each["hashes"][0]["content"] for each in bill if "hashes" in each}
    packages = {f"{each['name']} {each['version']}" for each in bill if each.get("purl", "").startswith("pkg:pypi")}
    own = {f"{name} {VERSION}" for name in ("tidegate", f"tidegate-{service}")}
    held = set(run(service, "/app/bin/python", "-I", "-c", HOLDS).strip().split("\n"))
    assert held - own == (jars | packages) - own


def test_kernels_are_not_compiled_at_start() -> None:
    there, new = run("processor", "/app/start.sh", "/app/bin/python", "-c", WARM).split()
    assert int(there) > 0
    assert int(new) == 0


def test_jars_are_not_fetched_at_start() -> None:
    told = run("processor", "/app/start.sh", "/app/bin/python", "-c", JARS)
    assert told.split() == ["KafkaSourceProvider", "KubernetesExecutorBackend"]
