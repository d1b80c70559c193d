"""Installs each member alone, from the lock, into a throw-away environment, and runs its unit tests there.

    python tools/test_alone.py [member …]

In the shared environment a member finds what only another one has declared; here it does not.
Invariant: nothing but the member, what it declares, and pytest is installed; the versions are those of the lock.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import uv_wheel

ROOT = Path(__file__).resolve().parent.parent
MEMBERS = {
    "tidegate": ("libs", ("--all-extras",)),
    "tidegate-reader": ("services/reader", ()),
    "tidegate-processor": ("services/spark-processor", ()),
    "tidegate-admin": ("services/admin-api", ()),
}
TEST_TOOLS = ("pytest", "pytest-randomly", "pytest-timeout", "hypothesis")
MORE_TOOLS = {"tidegate-admin": ("httpx",)}  # asks the application without a socket


def main(chosen: list[str]) -> int:
    unknown = set(chosen) - set(MEMBERS)
    if unknown:
        print(f"usage: python tools/test_alone.py [{' '.join(MEMBERS)}]", file=sys.stderr)
        return 2
    failed = [member for member in chosen or MEMBERS if not test_alone(member)]
    print(f"test-alone: {', '.join(failed)} failed" if failed else "test-alone: each stands by itself")
    return 1 if failed else 0


def test_alone(member: str) -> bool:
    folder, extras = MEMBERS[member]
    uv = uv_wheel.find(ROOT / ".cache") or uv_wheel.fetch(ROOT / ".cache")
    with tempfile.TemporaryDirectory(prefix="tidegate-alone-") as scratch:
        place = Path(scratch) / "environment"
        environment = os.environ | {"UV_PROJECT_ENVIRONMENT": str(place)}
        environment.pop("VIRTUAL_ENV", None)
        lock = Path(scratch) / "lock.txt"
        steps = (
            [uv, "sync", "--quiet", "--locked", "--package", member, *extras],
            [uv, "export", "--quiet", "--locked", "--only-group", "dev", "--no-hashes", "--output-file", lock],
            [uv, "pip", "install", "--quiet", "--python", place / "bin/python", "--constraints", lock, *tools(member)],
            [place / "bin/python", "-m", "pytest", "-q", "-m", "not integration and not e2e", f"{folder}/tests"],
        )
        print(f"test-alone: {member}", flush=True)
        return all(subprocess.run(step, cwd=ROOT, env=environment, check=False).returncode == 0 for step in steps)


def tools(member: str) -> tuple[str, ...]:
    return (*TEST_TOOLS, *MORE_TOOLS.get(member, ()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
