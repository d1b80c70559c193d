"""Where promtool is: on the PATH, else taken out of Debian's package without installing it.

    python tools/promtool.py        prints its path

Invariant: nothing is installed, no service is started; apt has checked the package against its signed lists.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CACHED = Path(__file__).resolve().parent.parent / ".cache" / "bin" / "promtool"


def find() -> Path | None:
    """None where there is neither the program nor apt."""
    on_path = shutil.which("promtool")
    if on_path:
        return Path(on_path)
    if not CACHED.exists() and shutil.which("apt-get"):
        _take_out()
    return CACHED if CACHED.exists() else None


def _take_out() -> None:
    with tempfile.TemporaryDirectory() as folder:
        got = subprocess.run(["apt-get", "download", "-q", "prometheus"], cwd=folder, capture_output=True, check=False)
        if got.returncode != 0:
            return
        (package,) = Path(folder).glob("prometheus_*.deb")
        subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
        CACHED.parent.mkdir(parents=True, exist_ok=True)
        part = CACHED.with_name("promtool.part")
        shutil.copy(Path(folder) / "usr" / "bin" / "promtool", part)
        part.replace(CACHED)


if __name__ == "__main__":
    found = find()
    print(found or "promtool is not there, and there is no apt to get it from", file=None if found else sys.stderr)
    sys.exit(0 if found else 1)
