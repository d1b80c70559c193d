"""Links between the pages in docs lead somewhere."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(#[^)]*)?\)")
PAGES = sorted(DOCS.rglob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(DOCS)) for page in PAGES])
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    targets = [target for target, _ in LINK.findall(page.read_text(encoding="utf-8"))]
    assert [target for target in targets if not (page.parent / target).exists()] == []
