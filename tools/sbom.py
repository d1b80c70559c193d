"""What each image holds, as CycloneDX: its Python packages from the lock, and the processor's jars.

    python tools/sbom.py [--into FOLDER]

The base image's own packages are not in it: whoever publishes it lists them (`docker sbom`, `syft IMAGE`).
Invariant: what is listed is what uv.lock and jars.toml name, so it is true of an image that was built from them.
"""

import argparse
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import uv_wheel

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {"reader": "tidegate-reader", "processor": "tidegate-processor", "admin": "tidegate-admin"}
EXTRAS = {"tidegate-reader": ("--extra", "tracing"), "tidegate-processor": ("--extra", "tracing")}
JARS = ROOT / "libs/src/tidegate/stack/jars.toml"


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
    return bill


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
    return found


if __name__ == "__main__":
    sys.exit(main())
