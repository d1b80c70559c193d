"""Where downloads are kept: one folder for all projects of a person, or the next best place that can be written."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tidegate.errors import ConfigError


def cache_root() -> Path:
    """`$TIDEGATE_CACHE` if it is set and nothing else then; otherwise the first place that can be written."""
    if named := os.environ.get("TIDEGATE_CACHE"):
        return Path(named).absolute()
    for place in _places():
        if _is_writable(place):
            return place
    raise ConfigError(
        "there is no place to keep downloads in",
        code="STACK_NO_CACHE",
        remedy="Name a writable folder in TIDEGATE_CACHE.",
    )


def _places() -> Iterator[Path]:
    if base := os.environ.get("XDG_CACHE_HOME"):
        yield Path(base) / "tidegate"
    if home := os.environ.get("HOME"):
        yield Path(home) / ".cache" / "tidegate"
    yield Path(tempfile.gettempdir()) / f"tidegate-cache-{os.getuid()}"


def _is_writable(place: Path) -> bool:
    try:
        place.mkdir(mode=0o755, parents=True, exist_ok=True)
        return place.stat().st_uid == os.getuid() and os.access(place, os.W_OK | os.X_OK)
    except OSError:
        return False
