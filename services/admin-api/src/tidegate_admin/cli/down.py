"""`tidegate down`: asks whoever holds a state directory to stop, and waits until it has."""

from pathlib import Path

from tidegate.errors import ExitCode
from tidegate_admin.cli import output
from tidegate_admin.demo.place import default_place


def run(state: Path | None) -> int:
    out = output.progress()
    for place in [default_place(name, state) for name in (("up",) if state else ("up", "demo"))]:
        holder = place.holder()
        if holder is None:
            out.print(f"nothing runs in {place.root}", highlight=False)
            continue
        out.print(f"stopping {holder} in {place.root}", highlight=False)
        place.end(holder)
        out.print("stopped")
    return ExitCode.CLEAN
