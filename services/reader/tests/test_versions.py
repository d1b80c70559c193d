"""The reader on every major of PostgreSQL that can be had (`TIDEGATE_TESTS_POSTGRES=all`); 10 to 13 as a smoke test."""

import json
import subprocess
import sys
from typing import Any

import pytest
from kit.raw_topic import inserted
from kit.wait import wait

from tidegate.contracts.epoch import decode_epoch
from tidegate.contracts.frame import FrameKind
from tidegate.contracts.mark import MarkKind, decode_mark
from tidegate.errors import ExitCode
from tidegate.pgoutput.messages import LogicalMessage, Truncate, Update

PROTOCOLS = {10: 1, 11: 1, 12: 1, 13: 1, 14: 2, 15: 3, 16: 4, 17: 4, 18: 4}


def test_everything_arrives_once_over_a_kill_and_the_slot_follows_the_acks(versioned: Any) -> None:
    reader = versioned.reader()
    versioned.sql("INSERT INTO orders (note) VALUES ('a'), ('b')")
    wait(lambda: inserted(versioned) == ["a", "b"], 20, "both rows are in the raw topic")
    reader.kill()
    reader.wait()
    versioned.sql("INSERT INTO orders (note) VALUES ('c')")
    reader = _again(versioned)
    wait(lambda: len(inserted(versioned)) >= 3, 20, "the third row is in the raw topic")
    assert inserted(versioned) == ["a", "b", "c"]
    before = versioned.confirmed()
    versioned.ack_everything()
    wait(lambda: versioned.confirmed() > before, 10, "the slot follows the ack")
    assert versioned.stop(reader) == ExitCode.CLEAN
    epochs = [decode_epoch(each.body) for each in versioned.frames() if each.header.kind is FrameKind.EPOCH]
    assert {PROTOCOLS[versioned.major]} == {epoch.options.protocol for epoch in epochs}


def test_the_other_kinds_of_change(versioned: Any) -> None:
    versioned.reader()
    versioned.sql("INSERT INTO orders (note) VALUES ('a')")
    versioned.sql("ALTER TABLE orders ADD COLUMN extra int DEFAULT 7")
    versioned.sql("UPDATE orders SET note = 'b'")
    if versioned.major >= 11:
        versioned.sql("TRUNCATE orders")
    if versioned.major >= 14:
        versioned.sql("SELECT pg_logical_emit_message(true, 'mine', 'said')")
    versioned.sql("INSERT INTO orders (note) VALUES ('end')")
    wait(lambda: "end" in inserted(versioned), 20, "the last row is in the raw topic")
    messages = versioned.messages()
    assert [each.new for each in messages if isinstance(each, Update)] == [(b"1", b"b", b"7")]
    assert (versioned.major >= 11) == any(isinstance(each, Truncate) for each in messages)
    said = [each.content for each in messages if isinstance(each, LogicalMessage) and each.prefix == "mine"]
    assert said == ([b"said"] if versioned.major >= 14 else [])
    marks = [decode_mark(each.body) for each in versioned.frames() if each.header.kind is FrameKind.MARK]
    assert [mark.kind for mark in marks] == [MarkKind.SCHEMA_CHANGE]


def test_a_publication_that_vanishes_is_lost(versioned: Any) -> None:
    """Up to 17 the server refuses, from 18 on it only warns and sends nothing."""
    reader = versioned.reader()
    versioned.sql(f"DROP PUBLICATION tidegate_{versioned.name}")
    versioned.sql("INSERT INTO orders (note) VALUES ('a')")
    assert versioned.exit_code(reader) == ExitCode.LOST
    assert versioned.status().failure.code == "PUBLICATION_MISSING"


def test_a_two_phase_slot_is_refused(versioned: Any) -> None:
    if versioned.major < 14:
        pytest.skip("slots have no two_phase before 14")
    if versioned.major < 15:
        pytest.skip("no pgoutput with two_phase before 15")
    versioned.sql(f"SELECT pg_create_logical_replication_slot('{versioned.slot}', 'pgoutput', false, true)")
    assert versioned.exit_code(versioned.start()) == ExitCode.CONFIGURATION
    assert "SLOT_TWO_PHASE" in versioned.log()


def test_a_failover_slot_from_17_on(versioned: Any) -> None:
    versioned.settings["source"]["slot"] = {"failover": True}
    if versioned.major < 17:
        assert versioned.exit_code(versioned.start()) == ExitCode.CONFIGURATION
        assert "SLOT_FAILOVER_VERSION" in versioned.log()
        return
    versioned.reader()
    assert versioned.sql("SELECT failover, two_phase FROM pg_replication_slots") == [(True, False)]


def test_the_doctor_knows_the_version(versioned: Any) -> None:
    command = [
        sys.executable,
        "-c",
        "from tidegate_admin.cli.app import main; main()",
        "doctor",
        "--json",
        str(versioned.config()),
    ]
    told = subprocess.run(command, capture_output=True, env=versioned.environment(), timeout=60, check=False)
    assert told.returncode == ExitCode.CLEAN, told.stderr
    codes = {each["code"] for each in json.loads(told.stdout)["findings"]}
    assert ("SERVER_UNSUPPORTED" in codes) == (versioned.major < 15)
    assert ("SLOT_WAL_UNLIMITED" in codes) == (versioned.major >= 13)
    assert not versioned.sql("SELECT FROM pg_publication")
    assert not versioned.sql(f"SELECT FROM pg_replication_slots WHERE slot_name = '{versioned.slot}'")


def _again(fleet: Any) -> Any:
    """The server may take a moment to notice that the one before is dead."""
    active = f"SELECT active FROM pg_replication_slots WHERE slot_name = '{fleet.slot}'"
    wait(lambda: fleet.sql(active) == [(False,)], 10, "the slot is let go")
    return fleet.reader()
