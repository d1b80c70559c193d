"""What each image holds, as CycloneDX: its Python packages from the lock, and the processor's jars.

    python tools/sbom.py [--into FOLDER]

The base image's own packages are not in it, nor Java and tini, which are its distribution's: whoever publishes the base
lists them (`docker sbom`, `syft IMAGE`).
Invariant: what is listed is what uv.lock, jars.toml and the locked pyspark name, so it is true of an image that was
built from them; `make test-compose` looks into the images.
"""

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import uv_wheel

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {"reader": "tidegate-reader", "processor": "tidegate-processor", "admin": "tidegate-admin"}
EXTRAS = {"tidegate-reader": ("--extra", "tracing"), "tidegate-processor": ("--extra", "tracing")}
JARS = ROOT / "libs/src/tidegate/stack/jars.toml"
DOCKERFILE = ROOT / "services/spark-processor/Dockerfile"
# Where an image is built: a lock names other packages for other systems and Pythons.
IMAGE = ("--python-platform", "linux", "--python-version", "3.11")


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the bills of materials.")
    parser.add_argument("--into", type=Path, default=ROOT / "dist")
    into = parser.parse_args().into
    into.mkdir(parents=True, exist_ok=True)
    for service, package in PACKAGES.items():
        bill = python_packages(package)
        if service == "processor":
            bill["components"] += jars()
        path = into / f"tidegate-{service}.cdx.json"
        path.write_text(json.dumps(bill, indent=1) + "\n")
        print(f"{path}: {len(bill['components'])} components")
    return 0


def python_packages(package: str) -> dict[str, Any]:
    uv = uv_wheel.find(ROOT / ".cache")
    command = [str(uv), "export", "--quiet", "--frozen", "--no-dev", "--package", package, *EXTRAS.get(package, ())]
    done = subprocess.run(
        [*command, "--format", "cyclonedx1.5", "--preview-features", "sbom-export"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    bill: dict[str, Any] = json.loads(done.stdout)
    installed = _installed(str(uv), package)
    bill["components"] = [each for each in bill["components"] if each["name"] in installed.get(each.get("version"), ())]
    return bill


def _installed(uv: str, package: str) -> dict[str | None, set[str]]:
    """Names by version, of what the lock means for an image's system."""
    done = subprocess.run(
        [uv, "tree", "--quiet", "--frozen", "--no-dev", "--package", package, *IMAGE],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    found: dict[str | None, set[str]] = {}
    for name, version in re.findall(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])? v(\S+)", done.stdout):
        found.setdefault(version, set()).add(name)
    return found


def jars() -> list[dict[str, Any]]:
    found = []
    for jar in tomllib.loads(JARS.read_text())["spark"]:
        group, name, version = jar["coordinate"].split(":")
        found.append(
            {
                "type": "library",
                "bom-ref": f"maven:{jar['coordinate']}",
                "group": group,
                "name": name,
                "version": version,
                "purl": f"pkg:maven/{group}/{name}@{version}",
                "hashes": [{"alg": "SHA-256", "content": jar["sha256"]}],
            }
        )
    return [*found, *_bundled()]


def _bundled() -> Iterator[dict[str, Any]]:
    """What pyspark brings, less what the Dockerfile takes out: by file names, many jars say no more of themselves."""
    spark = find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise SystemExit("sbom: pyspark is not installed here: make ready")
    taken_out = re.findall(r"-name '([^']+)'", DOCKERFILE.read_text().split("rm -rf examples", 1)[1].split("xargs")[0])
    for path in sorted((Path(spark.origin).parent / "jars").glob("*.jar")):
        name, version = re.fullmatch(r"(.+?)-(\d.*)", path.stem).groups()  # type: ignore[union-attr]
        if not any(fnmatch(path.name, pattern) for pattern in taken_out):
            yield {
                "type": "library",
                "bom-ref": f"pyspark:{path.name}",
                "name": name,
                "version": version,
                "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}],
            }


if __name__ == "__main__":
    sys.exit(main())
