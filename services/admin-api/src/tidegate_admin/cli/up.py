"""`tidegate up`: options in, exit code out."""

import asyncio
from pathlib import Path

from tidegate.observability import logs
from tidegate_admin.cli import output
from tidegate_admin.demo.place import default_place
from tidegate_admin.demo.up import run_up


def run(config: Path | None, state: Path | None) -> int:
    logs.configure("up", level="error")
    return asyncio.run(run_up(config, default_place("up", state), output.data(), output.progress()))
