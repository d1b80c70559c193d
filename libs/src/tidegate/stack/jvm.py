"""Finds a Java that can run the broker and Spark."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tidegate.errors import ConfigError

OLDEST = 17  # Spark 4 and Kafka 4 both ask for it
INSTALLATIONS = Path("/usr/lib/jvm")


def find_java() -> Path:
    """JAVA_HOME first, then PATH, then what Debian has installed; the first that is new enough."""
    for candidate in _candidates():
        if _major(candidate) >= OLDEST:
            return candidate
    raise ConfigError(
        f"no Java {OLDEST} or newer",
        code="STACK_NO_JAVA",
        remedy="Install it: apt-get install openjdk-17-jre-headless; or name it in JAVA_HOME.",
    )


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if found := shutil.which("java"):
        yield Path(found)
    if INSTALLATIONS.is_dir():
        yield from sorted(INSTALLATIONS.glob("*/bin/java"), reverse=True)


def _major(java: Path) -> int:
    """0 when it is no Java that can be asked. A JDK says its version in a file, which spares starting a JVM."""
    release = java.resolve().parent.parent / "release"
    try:
        text = release.read_text() if release.exists() else _ask(java)
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r'(?:JAVA_VERSION=|version )"(\d+)', text)
    return int(found[1]) if found else 0


def _ask(java: Path) -> str:
    asked = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=True)  # noqa: S603
    return asked.stderr
