"""The bill of materials of each image, made as `make sbom` makes it."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ship.queries import ROOT

LOCKED = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
WHEELS = {
    name: [wheel["url"] for package in LOCKED if package["name"] == name for wheel in package.get("wheels", ())]
    for name in {package["name"] for package in LOCKED if not package["name"].startswith("tidegate")}
}
PURE = {"pyspark"}
"""Come as source, and hold nothing that is compiled for a machine: Python, and jars."""


@pytest.fixture(scope="module")
def bills(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    folder = tmp_path_factory.mktemp("bills")
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "sbom.py", "--into", folder], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return {path.name.removesuffix(".cdx.json"): _names(path) for path in folder.glob("*.cdx.json")}


def _names(path: Path) -> set[str]:
    document = json.loads(path.read_text())
    assert document["bomFormat"] == "CycloneDX"
    assert all(component["version"] for component in document["components"] if "tidegate" not in component["name"])
    return {component["name"] for component in document["components"]}


def test_there_is_one_for_each_image(bills: dict[str, set[str]]) -> None:
    titles = {re.search(r'image.title="([^"]+)"', path.read_text()) for path in ROOT.glob("services/*/Dockerfile")}
    assert set(bills) == {title[1] for title in titles if title}


@pytest.mark.parametrize(
    ("image", "holds", "lacks"),
    [
        (
            "tidegate-reader",
            {"psycopg", "aiokafka", "redis", "opentelemetry-sdk"},
            {"pyspark", "fastapi", "numba", "pytest"},
        ),
        (
            "tidegate-processor",
            {"pyspark", "numba", "psycopg", "opentelemetry-sdk", "spark-sql-kafka-0-10_2.13"},
            {"aiokafka", "fastapi", "pytest"},
        ),
        ("tidegate-admin", {"fastapi", "aiokafka", "redis"}, {"pyspark", "numba", "opentelemetry-sdk", "pytest"}),
    ],
)
def test_it_names_what_the_service_needs_and_nothing_of_the_others(
    bills: dict[str, set[str]], image: str, holds: set[str], lacks: set[str]
) -> None:
    assert holds - bills[image] == set()
    assert lacks & bills[image] == set()


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("image", ["tidegate-reader", "tidegate-processor", "tidegate-admin"])
def test_every_package_has_a_wheel_for_the_machine(bills: dict[str, set[str]], image: str, machine: str) -> None:
    """So that an image is built on arm64 from the same Dockerfile and lock, with no compiler in it."""
    lacking = {name for name in bills[image] if name in WHEELS and not _has_wheel(name, machine)}
    assert set() == lacking - PURE


def _has_wheel(name: str, machine: str) -> bool:
    own = re.compile(rf"-(cp311-cp311|cp3\d+-abi3|py3-none)-manylinux[^-]*_{machine}\.whl$")
    return any(wheel.endswith("-any.whl") or own.search(wheel) for wheel in WHEELS[name])
