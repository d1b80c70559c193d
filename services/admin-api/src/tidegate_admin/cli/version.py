"""`tidegate version`: what is installed here. A part that is not is left out: services are installed apart, too."""

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed

from tidegate.errors import ExitCode
from tidegate_admin.cli import output

PARTS = ("tidegate", "tidegate-reader", "tidegate-processor", "tidegate-admin", "pyspark", "aiokafka", "psycopg")


def run(*, as_json: bool) -> int:
    versions = {part: found for part in PARTS if (found := _installed(part))} | {"python": platform.python_version()}
    if as_json:
        output.json(versions)
        return ExitCode.CLEAN
    for part, found in versions.items():
        output.data().print(f"{part:20} {found}", highlight=False)
    return ExitCode.CLEAN


def _installed(part: str) -> str | None:
    try:
        return installed(part)
    except PackageNotFoundError:
        return None
