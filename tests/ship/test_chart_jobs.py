"""What the chart's jobs do at a source: they ask before slots are forgotten, drop them, and push a change through."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
import yaml
from kit.pipelines import document, free_port, secrets_of
from kit.wait import wait

from ship.queries import CHART

ANSWERS = {"RELEASE": "demo", "NAMESPACE": "data", "QUESTION": "demo-slots"}
Job = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def source(database: Any) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database.dsn, autocommit=True) as link:
        yield link
        link.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s", [database.name]
        )


@pytest.fixture
def slot(source: psycopg.Connection[Any], prefix: str) -> str:
    name = f"tidegate_{prefix}"
    source.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [name])
    return name


@pytest.fixture
def job(database: Any, prefix: str) -> Job:
    def start(script: str, dsn: str = database.dsn, **environ: str) -> "subprocess.Popen[str]":
        values = document(prefix, kafka="127.0.0.1:1", redis_url="redis://127.0.0.1:1/0", postgres=dsn)
        secrets = secrets_of(redis_url="redis://127.0.0.1:1/0", postgres=dsn)
        given = {
            **os.environ,
            **ANSWERS,
            **secrets,
            "DECIDED": "ask",
            "PIPELINE_SHOP": yaml.safe_dump(values),
            **environ,
        }
        command = [sys.executable, "-c", (CHART / "files" / f"{script}.py").read_text()]
        return subprocess.Popen(command, env=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return start


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    said, wrong = process.communicate(timeout=60)
    assert wrong == ""
    return process.returncode, said


@pytest.fixture
def nowhere(database: Any) -> str:
    return f"postgresql://tidegate:secret-of-nobody@127.0.0.1:{free_port()}/{database.name}"


def test_an_uninstall_that_was_told_nothing_is_refused(job: Job, slot: str) -> None:
    code, said = ended(job("ask_about_slots"))
    assert code == 1
    assert f"slot {slot} would stay" in said
    assert "create configmap demo-slots --from-literal=answer=drop" in said


@pytest.mark.parametrize("told", [{"ANSWER": "drop"}, {"DECIDED": "drop"}, {"ANSWER": "keep"}, {"DECIDED": "keep"}])
def test_one_that_was_told_goes_on(job: Job, slot: str, told: dict[str, str]) -> None:
    assert ended(job("ask_about_slots", **told))[0] == 0


def test_one_that_could_not_drop_them_is_refused(job: Job, nowhere: str) -> None:
    code, said = ended(job("ask_about_slots", nowhere, DECIDED="drop"))
    assert (code, "Nothing has been deleted" in said) == (1, True)
    assert "secret-of-nobody" not in said
    assert ended(job("ask_about_slots", nowhere, DECIDED="keep"))[0] == 0


def test_slots_are_dropped_and_what_is_gone_already_is_well(job: Job, slot: str, source: Any) -> None:
    assert ended(job("drop_slots"))[1] == "slots: kept\n"
    for _ in range(2):
        code, said = ended(job("drop_slots", ANSWER="drop"))
        assert (code, said.endswith(f"slot {slot} dropped\n")) == (0, True)
    assert source.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", [slot]).fetchone() is None


def test_a_slot_that_can_not_be_dropped_is_named(job: Job, nowhere: str) -> None:
    code, said = ended(job("drop_slots", nowhere, DECIDED="drop"))
    assert (code, "stays, its source can't be reached" in said) == (1, True)


def test_a_change_is_through_when_the_slot_has_passed_it(job: Job, slot: str, source: Any) -> None:
    pushing = job("push_a_change")

    def is_through() -> bool:
        source.execute("SELECT pg_replication_slot_advance(%s, pg_current_wal_lsn())", [slot])
        return pushing.poll() is not None

    wait(is_through, 30, "the change is through")
    code, said = ended(pushing)
    assert (code, "a change is through in" in said) == (0, True)


def test_a_source_that_is_away_fails_the_test(job: Job, nowhere: str) -> None:
    code, said = ended(job("push_a_change", nowhere))
    assert (code, "can't be reached" in said) == (1, True)
