"""Writes every page that is generated; `--check` writes nothing and exits 1 where a page differs.

    python tools/generate.py [--check] [--root FOLDER]

A page is a module in tools/pages with `PATH` (from the root) and `render(root) -> str`. Adding the module is all.
"""

import argparse
import difflib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

TOOLS = Path(__file__).resolve().parent
SHOWN_LINES = 20


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the generated pages.")
    parser.add_argument("--check", action="store_true", help="only say which pages would change")
    parser.add_argument("--root", type=Path, default=TOOLS.parent, help="the checkout to read and write")
    arguments = parser.parse_args()
    is_check, root = arguments.check, arguments.root
    stale = 0
    for page in _pages():
        path, text = root / page.PATH, page.render(root)
        before = path.read_text(encoding="utf-8") if path.is_file() else ""
        if before == text:
            continue
        stale += 1
        if is_check:
            print(f"{page.PATH} is not what would be generated; run `make generate`")
            print(
                "\n".join(list(difflib.unified_diff(before.splitlines(), text.splitlines(), lineterm=""))[:SHOWN_LINES])
            )
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {page.PATH}")
    return 1 if is_check and stale else 0


def _pages() -> Iterator[ModuleType]:
    for path in sorted((TOOLS / "pages").glob("[!_]*.py")):
        yield importlib.import_module(f"pages.{path.stem}")


if __name__ == "__main__":
    sys.exit(main())
