"""The site is built, and no link of it leads nowhere: neither within the docs, nor to a file of the checkout."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from ship.queries import ROOT, alerts
from tidegate_admin.cli.app import app

OPERATIONS = ROOT / "docs" / "operations"
RUNBOOKS = sorted({Path(alert["annotations"]["runbook_url"]).stem for alert in alerts()})
COMMAND = re.compile(r"(?:^\s*|`)tidegate ([a-z-]+(?: [a-z-]+)?)", re.MULTILINE)
"""`tidegate slot drop`, at the beginning of a line or of a piece of code."""


def test_the_site_is_built_and_every_link_leads_somewhere(tmp_path: Path) -> None:
    done = build(ROOT / "mkdocs.yml", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "wrong",
    ["[a page](nowhere.md)", "[a file](../nowhere.py)", "[a heading](concepts.md#nowhere)"],
)
def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path, wrong: str) -> None:
    """With `--quiet`, mkdocs counts no warnings, and `--strict` refuses nothing."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    with (tmp_path / "docs" / "index.md").open("a") as page:
        page.write(f"\n{wrong}\n")
    settings = {"INHERIT": str(ROOT / "mkdocs.yml"), "docs_dir": "docs", "hooks": [str(ROOT / "tools/site_links.py")]}
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(settings))
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode != 0
    assert "nowhere" in done.stderr


def build(settings: Path, into: Path) -> "subprocess.CompletedProcess[str]":
    command = [Path(sys.executable).with_name("mkdocs"), "build", "--strict", "-f", settings, "--site-dir", into]
    environment = {"NO_MKDOCS_2_WARNING": "1", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("name", RUNBOOKS)
def test_a_runbook_has_every_part(name: str) -> None:
    text = (OPERATIONS / f"{name}.md").read_text()
    for heading in ("## What it means", "## Look", "## Do", "## Afterwards"):
        assert heading in text
    assert f"({name}.md)" in (OPERATIONS / "index.md").read_text()


@pytest.mark.parametrize("name", RUNBOOKS)
def test_a_runbook_names_the_alerts_that_lead_to_it(name: str) -> None:
    text = (OPERATIONS / f"{name}.md").read_text().partition("##")[0]
    leading = {alert["alert"] for alert in alerts() if alert["annotations"]["runbook_url"].endswith(f"/{name}.md")}
    assert leading == set(re.findall(r"Tidegate[A-Za-z]+", text))


def test_the_commands_of_the_runbooks_exist() -> None:
    for page in sorted(OPERATIONS.glob("*.md")):
        for found in COMMAND.findall(page.read_text()):
            assert _exists(typer.main.get_command(app), found.split()), f"{page.name}: tidegate {found}"


def _exists(command: Any, words: list[str]) -> bool:  # typer brings its own click, whose types are not public
    """What stands behind a command that has none below it is its argument."""
    below = getattr(command, "commands", None)
    if below is None:
        return command is not None
    return bool(words) and _exists(below.get(words[0]), words[1:])
