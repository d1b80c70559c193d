"""Whether anything is known against the packages that are locked, as the services run them.

    python tools/audit.py        exit 1 if something is, or if one of them could not be asked for

It asks PyPI's own advisories, which needs the internet. Images, with their jars and base, are `grype`'s or `trivy`'s to
read, out of `make sbom`.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import uv_wheel

ROOT = Path(__file__).resolve().parent.parent
_LOCKED = ("export", "--quiet", "--frozen", "--all-packages", "--all-extras", "--no-emit-workspace", "--no-dev")
_AUDIT = ("tool", "run", "pip-audit", "--strict", "--disable-pip", "--requirement")


def main() -> int:
    uv = str(uv_wheel.find(ROOT / ".cache"))
    with tempfile.TemporaryDirectory() as folder:
        locked = Path(folder, "locked.txt")
        subprocess.run([uv, *_LOCKED, "--output-file", str(locked)], cwd=ROOT, check=True)
        return subprocess.run([uv, *_AUDIT, str(locked)], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
