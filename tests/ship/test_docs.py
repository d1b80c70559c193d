"""The site is built, and no link of it leads nowhere: neither within the docs, nor to a file of the checkout."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from ship.queries import CHART, ROOT, alerts
from tidegate_admin.cli.app import app

OPERATIONS = ROOT / "docs" / "operations"
RUNBOOKS = sorted({Path(alert["annotations"]["runbook_url"]).stem for alert in alerts()})


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


PAGES = sorted(
    {*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), *ROOT.glob("services/*/README.md"), CHART / "README.md"}
)
FENCED = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`]+)`")
BEFORE = ("admin", "--")
"""`docker compose exec admin tidegate …`, `kubectl exec deploy/tidegate-admin -- tidegate …`."""


def commands_of(text: str) -> Iterator[list[str]]:
    """The words behind each `tidegate` that is a command: of a line of a block, or of a piece of code."""
    blocks = [block for language, block in FENCED.findall(text) if language in ("", "sh")]
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    for piece in [*lines, *INLINE.findall(FENCED.sub("", text))]:
        if re.search(r"\btidegate\s", piece):
            yield from _commands(piece)


def _commands(piece: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(piece, posix=True, punctuation_chars=";|&<>")
    lexer.whitespace_split = True
    command: list[str] = []
    for word in [*lexer, ";"]:
        if set(word) <= set(";|&<>"):
            places = [
                at for at, each in enumerate(command) if each == "tidegate" and (at == 0 or command[at - 1] in BEFORE)
            ]
            yield from (command[at + 1 :] for at in places)
            command = []
        else:
            command.append(word)


def complaint(words: list[str]) -> str:
    """What is wrong with a command; `…` stands for whatever a person writes there."""
    command: Any = typer.main.get_command(app)  # typer brings its own click, whose types are not public
    arguments, left = 0, iter(words)
    for word in left:
        if word.startswith("-"):
            name, _, value = word.partition("=")
            option = next((each for each in command.params if name in each.opts), None)
            if option is None and name not in ("-h", "--help"):
                return f"{command.name} has no {name}"
            if option is not None and not option.is_flag and not value:
                next(left, None)
        elif word != "…" and hasattr(command, "commands"):
            if word not in command.commands:
                return f"{command.name} has no {word}"
            command = command.commands[word]
        else:
            arguments += 1
    most = sum(
        each.nargs if each.nargs > 0 else len(words) for each in command.params if each.param_type_name == "argument"
    )
    return f"{command.name} takes {most} arguments" if arguments > most and words != ["…"] else ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_would_be_taken(page: Path) -> None:
    text = page.read_text()
    assert [f"tidegate {' '.join(words)}: {wrong}" for words in commands_of(text) if (wrong := complaint(words))] == []


@pytest.mark.parametrize(
    "wrong",
    [
        "`tidegate slot shwo tidegate_shop`",
        "`tidegate slot show tidegate_shop --pipline shop`",
        "`tidegate slot drop one two`",
        "a line's end does not hide it: `tidegate snapshot\n  start --folow`",
        "```sh\ndocker compose exec -T admin tidegate config diff --yes /dev/stdin < mine.yaml\n```",
        "1. in a list\n   ```sh\n   kubectl exec deploy/tidegate-admin -- tidegate docter x.yaml   # look\n   ```",
    ],
)
def test_a_command_that_would_be_refused_is_found(wrong: str) -> None:
    (words,) = commands_of(wrong)
    assert complaint(words)


def test_commands_of_the_runbooks_are_found_at_all() -> None:
    told = {words[0] for page in PAGES for words in commands_of(page.read_text()) if words}
    assert {"status", "slot", "pipelines", "doctor", "dlq", "lane", "snapshot", "token", "config", "where-is"} <= told
