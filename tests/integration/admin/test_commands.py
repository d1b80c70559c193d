"""The command against a running service: what it prints, what it asks before, and how it exits."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.admin_process import AdminPlace, admin_place
from kit.frames import RawLog, row
from kit.letters import make_letter
from kit.pipelines import document, free_port, written
from kit.topics import append, make_topic
from kit.wait import wait

from tidegate.errors import ExitCode
from tidegate_admin.security.scopes import Scope


@pytest.fixture(scope="module")
def token(place: AdminPlace) -> str:
    made = place.token()
    place.client()  # waits until its own token is known, which is younger
    return made


@pytest.fixture(scope="module")
def filled(place: AdminPlace) -> AdminPlace:
    log = RawLog()
    log.epoch()
    for number in range(3):
        log.transaction(row(number, "[red]\x1b[2Jnote"))
    append(place.bootstrap, place.config.raw_topic.name, log.frames)
    make_topic(place.bootstrap, f"tidegate.{place.config.pipeline}.dlq")
    append(place.bootstrap, f"tidegate.{place.config.pipeline}.dlq", [make_letter(1).encode()])
    return place


def run(place: AdminPlace, token: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "TIDEGATE_URL": place.url, "TIDEGATE_TOKEN": token}
    command = [str(Path(sys.executable).with_name("tidegate")), *arguments]
    return subprocess.run(
        command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60
    )


def test_lists_are_tables_and_json(place: AdminPlace, token: str) -> None:
    table = run(place, token, "publication", "list")
    listed = run(place, token, "publication", "list", "--json")
    assert (table.returncode, listed.returncode) == (0, 0)
    assert "NAME" in table.stdout
    assert {each["name"] for each in json.loads(listed.stdout)["items"]} == {"everything", "mine"}
    assert run(place, token, "source", "columns", "public.orders").stdout.count("\n") >= 5


@pytest.fixture(scope="module")
def of_two(postgres, kafka, redis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminPlace]:
    """One service with two pipelines, as the chart's."""
    first, second = tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("second")
    name, address = f"t{uuid.uuid4().hex[:12]}", {"http": f"127.0.0.1:{free_port()}"}
    servers = {"kafka": kafka.bootstrap, "redis_url": redis.url, "postgres": postgres.dsn()}
    other = written(second, document(f"{name}-other", admin=address, **servers))
    with admin_place(
        first,
        name,
        dsn=postgres.dsn(),
        bootstrap=kafka.bootstrap,
        redis_url=redis.url,
        options=("--config", str(other)),
        admin=address,
    ) as made:
        yield made


def test_of_several_pipelines_one_is_named_before_the_command_or_at_its_end(of_two: AdminPlace) -> None:
    name = of_two.config.pipeline
    unnamed = of_two.command("slot", "list", "--json")
    named = [
        of_two.command("slot", "--pipeline", name, "list", "--json"),
        of_two.command("slot", "list", "--json", "--pipeline", name),
        of_two.command("slot", "list", "-p", name, "--json"),
        of_two.command("slot", "-p", "another", "list", "--json", f"-p{name}"),
    ]
    assert (unnamed.returncode, "PIPELINE_AMBIGUOUS" in unnamed.stderr) == (2, True)
    assert [(each.returncode, each.stderr) for each in named] == [(0, "")] * 4
    assert "PIPELINE_UNKNOWN" in of_two.command("slot", "list", "-p", "another").stderr


def test_what_is_said_of_the_service_counts_wherever_it_is_said(place: AdminPlace, token: str) -> None:
    """The environment does not come between what is typed before a command and the command."""
    nowhere = "http://127.0.0.1:1"
    assert run(place, token, "publication", "list", "--url", place.url, "--token", token).returncode == 0
    assert "ADMIN_UNAVAILABLE" in run(place, token, "publication", "list", "--url", nowhere).stderr
    assert "ADMIN_UNAVAILABLE" in run(place, token, "publication", "--url", nowhere, "list").stderr


def test_a_token_may_be_in_a_file(
    place: AdminPlace, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "operator.token"
    file.write_text(f"{token}\n")
    monkeypatch.setenv("TIDEGATE_TOKEN_FILE", str(file))
    assert run(place, "", "publication", "list").returncode == 0
    file.unlink()
    refused = run(place, "", "publication", "list")
    assert (refused.returncode, "TOKEN_FILE" in refused.stderr) == (ExitCode.CONFIGURATION, True)


def test_what_destroys_asks_first_and_a_script_says_yes(place: AdminPlace, token: str) -> None:
    own = place.config.source.slot.name
    assert run(place, token, "slot", "create").returncode == 0
    unasked = run(place, token, "slot", "drop", own)
    dropped = run(place, token, "slot", "drop", own, "--yes", "--json")
    again = run(place, token, "slot", "drop", own, "--yes")
    assert (unasked.returncode, "--yes" in unasked.stderr) == (2, True)
    assert json.loads(dropped.stdout)["done"] == "dropped"
    assert (again.returncode, "SLOT_UNKNOWN" in again.stderr) == (2, True)


def test_a_weaker_token_is_told_what_it_lacks(place: AdminPlace, token: str) -> None:
    weak = place.token(Scope.READ)
    refused = wait(lambda: _refused(place, weak), 10, "the token is known")
    assert refused.returncode == 2
    assert "destroy" in refused.stderr


def _refused(place: AdminPlace, token: str) -> subprocess.CompletedProcess[str] | None:
    done = run(place, token, "slot", "drop", "tidegate_x", "--yes")
    return done if "SCOPE_MISSING" in done.stderr else None


def test_frames_and_events_are_shown_and_cannot_write_to_the_terminal(filled: AdminPlace, token: str) -> None:
    frame = run(filled, token, "frames", "show", "1")
    events = run(filled, token, "events", "--after", "0.-1", "--count", "2", "--json")
    assert (frame.returncode, events.returncode) == (0, 0)
    assert "\x1b" not in frame.stdout
    assert "[red]" in frame.stdout
    assert [json.loads(line)["row"]["id"] for line in events.stdout.splitlines()] == ["0", "1"]


def test_where_is_by_lsn_and_by_key(filled: AdminPlace, token: str) -> None:
    found = run(filled, token, "where-is", "--table", "public.orders", "--key", '{"id": "2"}', "--json")
    assert found.returncode == 0, found.stderr
    assert [each["offset"] for each in json.loads(found.stdout)["matches"]] == [3]
    ahead = run(filled, token, "where-is", "FFFFFFF/0")
    assert ahead.stdout.startswith("unwritten")
    assert run(filled, token, "where-is").returncode == 2


def test_dead_letters_are_found_and_given_up(filled: AdminPlace, token: str) -> None:
    wait(lambda: "events" in run(filled, token, "dlq", "counts").stdout, 20, "it is in the index")
    dry = run(filled, token, "dlq", "purge", "--lane", "events", "--dry-run", "--json")
    unasked = run(filled, token, "dlq", "purge", "--lane", "events")
    done = run(filled, token, "dlq", "purge", "--lane", "events", "--yes", "--json")
    counted = json.loads(dry.stdout)
    assert (counted["letters"], counted["done"], counted["is_cut"]) == (1, False, False)
    assert unasked.returncode == 2
    assert json.loads(done.stdout) == counted | {"done": True}
    refused = run(filled, token, "dlq", "replay", make_letter(1).id)
    assert (refused.returncode, "DEAD_LETTER_UNKNOWN" in refused.stderr) == (2, True)


def test_tokens_are_made_listed_and_revoked(tmp_path: Path, place: AdminPlace) -> None:
    file = str(tmp_path / "tokens.json")
    made = json.loads(run(place, "", "token", "create", "ci", "--scope", "operate", "--file", file, "--json").stdout)
    listed = run(place, "", "token", "list", "--file", file, "--json")
    revoked = run(place, "", "token", "revoke", made["id"], "--file", file, "--yes")
    again = run(place, "", "token", "revoke", made["id"], "--file", file, "--yes")
    assert made["token"].startswith(f"tg_{made['id']}_")
    assert made["token"] not in listed.stdout
    assert json.loads(listed.stdout)["items"][0]["scopes"] == ["operate"]
    assert (revoked.returncode, again.returncode) == (0, 2)
