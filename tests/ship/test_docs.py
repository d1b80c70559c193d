"""The site is built, and no link of it leads nowhere: neither within the docs, nor to a file of the checkout."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ship.queries import ROOT, alerts

OPERATIONS = ROOT / "docs" / "operations"
RUNBOOKS = sorted({Path(alert["annotations"]["runbook_url"]).stem for alert in alerts()})
COMMAND = re.compile(r"^\s*(?:\$ )?tidegate ([a-z-]+)", re.MULTILINE)


def test_the_site_is_built_and_every_link_leads_somewhere(tmp_path: Path) -> None:
    command = [Path(sys.executable).with_name("mkdocs"), "build", "--quiet", "--strict", "--site-dir", tmp_path]
    environment = {"NO_MKDOCS_2_WARNING": "1", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


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
    known = subprocess.run(
        [Path(sys.executable).with_name("tidegate"), "--help"], capture_output=True, text=True
    ).stdout
    for page in sorted(OPERATIONS.glob("*.md")):
        for name in COMMAND.findall(page.read_text()):
            assert re.search(rf"\b{name}\b", known), f"{page.name}: tidegate {name}"
