"""Who holds the slot when a reader starts: a dead link of ours is ended, anybody else is waited for."""

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

from kit.proxy import Proxy
from kit.raw_topic import inserted
from kit.wait import wait
from psycopg import pq

from tidegate.errors import ExitCode
from tidegate_reader.process_identity import ProcessIdentity


def test_only_a_process_that_is_provably_gone_is_dead() -> None:
    own = ProcessIdentity.own()
    assert ProcessIdentity.parse(str(own)) == own
    assert not own.is_dead
    assert replace(own, start="1").is_dead
    assert not replace(own, place="000000", start="1").is_dead
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    assert replace(own, pid=child.pid).is_dead
    assert ProcessIdentity.parse("psql") is None
    assert own.pid == os.getpid()


def test_a_half_open_link_of_a_killed_reader_is_ended(fleet: Any) -> None:
    source = fleet.settings["source"]
    with Proxy(source["host"], source["port"]).running() as proxy:
        direct, source["port"] = source["port"], proxy.port
        reader = fleet.reader()
        fleet.sql("INSERT INTO orders (note) VALUES ('a')")
        wait(lambda: inserted(fleet) == ["a"], 10, "the row is in the raw topic")
        proxy.hold()
        reader.kill()
        reader.wait()
        source["port"] = direct
        fleet.sql("INSERT INTO orders (note) VALUES ('b')")
        assert fleet.sql(f"SELECT active FROM pg_replication_slots WHERE slot_name = '{fleet.slot}'") == [(True,)]
        fleet.reader()
        wait(lambda: len(inserted(fleet)) >= 2, 10, "the second row is in the raw topic")
    assert inserted(fleet) == ["a", "b"]
    assert "stale_sender_terminated" in fleet.log()


def test_a_living_reader_keeps_its_slot(fleet: Any) -> None:
    first = fleet.reader()
    second = fleet.start("reader.slot_wait=1s")
    assert fleet.exit_code(second, within_seconds=40) == ExitCode.RETRY
    assert "SLOT_IN_USE" in fleet.log()
    assert first.poll() is None
    fleet.sql("INSERT INTO orders (note) VALUES ('a')")
    wait(lambda: inserted(fleet) == ["a"], 10, "the first one goes on")
    assert {each.header.epoch for each in fleet.frames()} == {1}


def test_a_stranger_on_the_slot_is_not_touched(fleet: Any) -> None:
    fleet.stop(fleet.reader())
    start = f"START_REPLICATION SLOT {fleet.slot} LOGICAL 0/0 (proto_version '1', publication_names '{fleet.slot}')"
    stranger = pq.PGconn.connect(f"{fleet.dsn}?replication=database&application_name=stranger".encode())
    try:
        stranger.send_query(start.encode())
        active = f"SELECT active FROM pg_replication_slots WHERE slot_name = '{fleet.slot}'"
        wait(lambda: fleet.sql(active) == [(True,)], 10, "the stranger has the slot")
        assert fleet.exit_code(fleet.start("reader.slot_wait=1s"), within_seconds=40) == ExitCode.RETRY
        assert "stranger" in fleet.log()
        assert fleet.sql(active) == [(True,)]
    finally:
        stranger.finish()
