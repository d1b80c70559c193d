"""`tidegate demo`: options in, exit code out; the demo itself is in tidegate_admin.demo."""

import asyncio
import time
from pathlib import Path

from tidegate.errors import ConfigError
from tidegate.observability import logs
from tidegate_admin.cli import output
from tidegate_admin.demo.place import default_place
from tidegate_admin.demo.run import DemoOptions, run_demo


def run(seconds: str | None, rate: float, state: Path | None, *, plain: bool) -> int:
    begun = time.monotonic()
    logs.configure("demo", level="error")
    options = DemoOptions(default_place("demo", state), _seconds(seconds), rate, plain)
    return asyncio.run(run_demo(options, begun, output.data(), output.progress()))


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or not int(text):
        raise ConfigError(
            "DEMO_SECONDS is no number of seconds", code="DEMO_SECONDS", remedy="Write a whole number: DEMO_SECONDS=30."
        )
    return float(text)
