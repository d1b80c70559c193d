"""A hook of mkdocs: links of the docs to files outside them lead to the repository, so pages read well in both places.

Invariant: only a file or folder that exists is linked to; anything else is left to mkdocs, which fails on it.
"""

import posixpath
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
_LINK = re.compile(r"(\]\()([^)\s]+)(\))")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:  # mkdocs' own objects
    folder = posixpath.dirname(f"docs/{page.file.src_uri}")

    def outside(match: re.Match[str]) -> str:
        target = match[2]
        parts = urlsplit(target)
        path = posixpath.normpath(posixpath.join(folder, parts.path))
        is_page = path.startswith("docs/") and path.endswith(".md")
        if parts.scheme or not parts.path or is_page or not (ROOT / path).exists():
            return match[0]
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        anchor = f"#{parts.fragment}" if parts.fragment else ""
        return f"{match[1]}{config.repo_url.rstrip('/')}/{kind}/main/{path}{anchor}{match[3]}"

    return _LINK.sub(outside, markdown)
