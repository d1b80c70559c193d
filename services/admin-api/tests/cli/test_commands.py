"""`tidegate` as a person or a script runs it."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tidegate_admin.cli.app import app

COMMAND = Path(sys.executable).with_name("tidegate")
GOOD = """
pipeline: shop
source: {dsn: "postgresql://tidegate@localhost/shop", publication: {tables: [public.orders]}}
kafka: {bootstrap: "localhost:9092"}
redis: {url: redis://localhost/0, password: "${env:NOT_SET_HERE}"}
sinks: [{name: events, type: kafka_topics}]
"""
BAD = GOOD.replace("redis://", "rediss:/").replace("kafka_topics", "kafka_topcis").replace("dsn:", "dns:")


def run(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("TIDEGATE_", "DEMO_"))}
    return subprocess.run(
        [COMMAND, *arguments], capture_output=True, text=True, timeout=60, env=inherited | environment, check=False
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.yaml"
    path.write_text(GOOD)
    return path


def test_a_good_file_is_in_order(file: Path) -> None:
    done = run("validate", str(file), "--no-secrets")
    assert (done.returncode, done.stderr) == (0, "")
    assert "in order" in done.stdout


def test_a_secret_that_cannot_be_read_here_is_a_problem(file: Path) -> None:
    done = run("validate", str(file))
    assert done.returncode == 2
    assert "SECRET_UNSET" in done.stderr
    assert run("validate", str(file), NOT_SET_HERE="x").returncode == 0


def test_all_problems_are_told_at_once(file: Path) -> None:
    """For people on stderr, for programs on stdout."""
    file.write_text(BAD)
    done = run("validate", str(file), "--json", "--no-secrets")
    document = json.loads(done.stdout)
    assert done.returncode == 2
    assert document["valid"] is False
    assert {"redis.url", "sinks[0].type", "source.dns"} <= {problem["path"] for problem in document["problems"]}
    assert all(problem["remedy"] for problem in document["problems"])


def test_no_colour_where_there_is_no_terminal(file: Path) -> None:
    file.write_text(BAD)
    assert "\x1b[" not in run("validate", str(file)).stderr
    assert "\x1b[" not in run("validate", str(file), NO_COLOR="1").stderr


def test_versions_for_programs() -> None:
    document = json.loads(run("version", "--json").stdout)
    assert document["tidegate-admin"] == version("tidegate-admin")
    assert document["python"].startswith("3.")


def test_status_says_what_to_do_when_nobody_answers() -> None:
    done = run("status", "--url", "http://127.0.0.1:1")
    assert done.returncode == 1
    assert "ADMIN_UNAVAILABLE" in done.stderr
    assert "--config" in done.stderr


def test_status_without_servers_is_an_answer(file: Path) -> None:
    """Straight from the file: what cannot be reached is shown as such."""
    unreachable = GOOD.replace(', password: "${env:NOT_SET_HERE}"', "").replace("@localhost/", "@127.0.0.1:1/")
    file.write_text(unreachable.replace("redis://localhost/", "redis://127.0.0.1:1/"))
    document = json.loads(run("status", "--config", str(file), "--json").stdout)
    assert [(item["name"], item["state"]) for item in document["items"]] == [("shop", "down")]
    table = run("status", "--config", str(file)).stdout
    assert "lane events" in table
    assert "Redis does not answer" in table


def test_a_wrong_number_of_seconds_is_refused() -> None:
    done = run("demo", DEMO_SECONDS="soon")
    assert done.returncode == 2
    assert "DEMO_SECONDS=30" in done.stderr


def commands(found: Any, *words: str) -> Iterator[tuple[str, Any]]:
    """Each with the words that call it. `Any`: typer brings its own click, whose types are not public."""
    below = getattr(found, "commands", None)
    if below is None:
        yield " ".join(words), found
    for name, each in (below or {}).items():
        yield from commands(each, *words, name)


COMMANDS = dict(commands(typer.main.get_command(app)))
ASKING = {"pipelines", "lane", "config", "slot", "publication", "source", "snapshot", "dlq", "frames"}
"""Groups whose commands ask the service."""


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_every_option_explains_itself(name: str) -> None:
    command = COMMANDS[name]
    silent = [each.name for each in command.params if each.param_type_name == "option" and not each.help]
    assert command.help
    assert silent == []


@pytest.mark.parametrize("name", [name for name in COMMANDS if name.split()[0] in ASKING])
def test_where_the_service_is_may_be_said_behind_the_command_too(name: str) -> None:
    """And none of its own options is called so."""
    options = Counter(option for each in COMMANDS[name].params for option in each.opts if option.startswith("-"))
    assert [options[each] for each in ("--url", "--token", "--pipeline", "-p")] == [1, 1, 1, 1]
    assert max(options.values()) == 1


@pytest.mark.parametrize("name", [*COMMANDS, *{each.split()[0] for each in COMMANDS}, ""])
def test_help_is_told_without_a_service(name: str) -> None:
    told = CliRunner().invoke(app, [*name.split(), "--help"])
    assert (told.exit_code, "Usage" in told.stdout) == (0, True)


def test_what_asks_the_service_can_be_read_by_programs() -> None:
    """But what runs the fleet here, and what only ends it."""
    without = {name for name, each in COMMANDS.items() if not any("--json" in option.opts for option in each.params)}
    assert without == {"up", "down", "demo"}


@pytest.mark.parametrize(
    ("words", "expected"),
    [("sl", ["slot"]), ("slot ", ["list", "show", "create", "drop", "advance"]), ("dlq replay --dr", ["--dry-run"])],
)
def test_the_shell_completes(words: str, expected: list[str]) -> None:
    """As bash asks what `--install-completion` put there."""
    typed = f"tidegate {words}".split(" ")
    asked = {"_TIDEGATE_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(typed), "COMP_CWORD": str(len(typed) - 1)}
    done = run(**asked)
    assert done.stdout.split() == expected
