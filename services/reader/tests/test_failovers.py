"""M07 with real servers: a standby is promoted, and the reader goes on there, or says why it must not."""

import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from kit.postgres_versions import BUNDLED, chosen_versions
from kit.raw_topic import inserted
from kit.standby import PHYSICAL_SLOT, Standby, install_of
from kit.wait import wait

from tidegate.contracts.epoch import EpochRecord, decode_epoch
from tidegate.contracts.frame import FrameKind
from tidegate.contracts.lineage import Lineage, decode_lineage
from tidegate.contracts.names import lineage_key
from tidegate.errors import ExitCode
from tidegate.failpoints import VARIABLE, Failpoint
from tidegate.stack.postgres import Postgres

pytestmark = pytest.mark.integration


class Pair:
    """A primary and what stands by; `fleet` reads the primary until it is pointed elsewhere."""

    def __init__(self, folder: Path, major: str, make_fleet: Callable[[str], Any], started: ExitStack) -> None:
        self._folder, self._major, self._started = folder, major, started
        self.primary = Postgres(folder / "primary", install=install_of(major), fsync=False)
        self.primary.start()
        started.callback(self.primary.stop)
        self.fleet = make_fleet(self.primary.dsn())
        if int(major) >= 17:
            self.fleet.settings["source"]["slot"] = {"failover": True}

    def standby(self, *, keeps_slots: bool = True) -> Standby:
        standby = Standby(self._folder / "standby", self.primary, self._major, keeps_slots=keeps_slots)
        standby.start()
        self._started.callback(standby.stop)
        return standby

    def point_at(self, server: Postgres) -> None:
        parts = urlsplit(server.dsn())
        self.fleet.settings["source"] |= {"host": parts.hostname, "port": parts.port}
        self.fleet.dsn = server.dsn(self.fleet.name)

    def write(self, *notes: str) -> None:
        for note in notes:
            self.fleet.sql("INSERT INTO orders (note) VALUES (%s)", note)

    def deliver(self, *notes: str) -> None:
        self.write(*notes)
        wait(lambda: inserted(self.fleet)[-len(notes) :] == list(notes), 30, f"{notes} are in the raw topic")
        self.fleet.ack_everything()

    def primary_end(self) -> str:
        with psycopg.connect(self.primary.dsn(), autocommit=True) as connection:
            [end] = connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone() or [""]
        return str(end)


@pytest.fixture(params=[BUNDLED, *({"17"} & set(chosen_versions()))])
def pair(request: pytest.FixtureRequest, fleet_on: Callable[[str], Any]) -> Iterator[Pair]:
    yield from _pair(request.param, fleet_on)


@pytest.fixture
def old_pair(fleet_on: Callable[[str], Any]) -> Iterator[Pair]:
    yield from _pair("16", fleet_on)


def _pair(major: str, fleet_on: Callable[[str], Any]) -> Iterator[Pair]:
    folder = Path(tempfile.mkdtemp(prefix="tidegate-failover-"))
    folder.chmod(0o755)
    with ExitStack() as started:
        started.callback(shutil.rmtree, folder, ignore_errors=True)
        yield Pair(folder, major, fleet_on, started)


@pytest.mark.parametrize("pair", ["17", BUNDLED], indirect=True)
def test_a_planned_failover_goes_on_with_every_row_once(pair: Pair) -> None:
    fleet = pair.fleet
    reader = fleet.reader()
    assert "FAILOVER_UNGUARDED" in fleet.log()
    standby = pair.standby()
    pair.deliver("a", "b")
    standby.follow_slot(fleet.slot)
    pair.write("c")
    wait(lambda: inserted(fleet) == ["a", "b", "c"], 20, "a row is in the raw topic and not acked")
    pair.primary.stop()
    assert fleet.exit_code(reader) == ExitCode.RETRY

    pair.point_at(standby)
    assert fleet.exit_code(fleet.start()) == ExitCode.RETRY
    assert "SOURCE_NOT_PROMOTED" in fleet.log()
    standby.promote()
    pair.write("d")
    reader = fleet.reader()
    pair.deliver("e")
    acked = fleet.frames()[-1].header.safe_lsn
    wait(lambda: fleet.confirmed() >= acked, 20, "the new primary's slot follows the acks")
    assert fleet.stop(reader) == ExitCode.CLEAN

    assert inserted(fleet) == ["a", "b", "c", "d", "e"]
    assert len({each.header.generation.id for each in fleet.frames()}) == 1
    first, second = _epochs(fleet)
    assert first.branch is not None
    assert second.branch is not None
    assert (first.branch.timeline, first.branch.begins) == (1, None)
    assert (second.branch.timeline, second.branch.left) == (2, 1)
    assert second.branch.begins == second.branch.fork
    assert _lineage(fleet).branch == second.branch.settled()


def test_promoted_twice_and_redis_emptied_meanwhile(pair: Pair) -> None:
    """Lanes say again what they have; where the reader worked only the raw topic tells."""
    fleet = pair.fleet
    reader = fleet.reader()
    standby = pair.standby()
    pair.deliver("a")
    standby.follow_slot(fleet.slot)
    pair.primary.stop()
    fleet.exit_code(reader)
    standby.promote()
    standby.promote_again()
    with fleet.redis() as client:
        client.flushall()

    pair.point_at(standby)
    reader = fleet.reader()
    pair.deliver("b")
    assert fleet.stop(reader) == ExitCode.CLEAN
    assert inserted(fleet) == ["a", "b"]
    branch = _epochs(fleet)[-1].branch
    assert branch is not None
    assert (branch.timeline, branch.left) == (3, 1)
    assert branch.fork is not None
    assert branch.begins is not None
    assert branch.fork < branch.begins
    with fleet.redis() as client:
        client.flushall()
    assert fleet.stop(fleet.reader()) == ExitCode.CLEAN
    assert len({each.header.generation.id for each in fleet.frames()}) == 1


def test_ended_in_the_middle_of_the_step_it_is_gone_on_with(pair: Pair) -> None:
    """Its epoch frame is in the raw topic; Redis has the step as it was said before, not settled."""
    fleet = pair.fleet
    reader = fleet.reader()
    standby = pair.standby()
    pair.deliver("a")
    standby.follow_slot(fleet.slot)
    _promoted_after_its_end(pair, standby, reader)
    points = fleet.folder / "failpoints"
    points.mkdir()
    (points / Failpoint.READER_EPOCH_BEGUN).write_text("kill 1")
    fleet.variables[VARIABLE] = str(points)
    assert fleet.exit_code(fleet.start()) == -signal.SIGKILL
    assert _lineage(fleet).branch == _epochs(fleet)[-1].branch
    del fleet.variables[VARIABLE]

    reader = fleet.reader()
    pair.deliver("b")
    assert fleet.stop(reader) == ExitCode.CLEAN
    assert inserted(fleet) == ["a", "b"]
    branches = [each.branch for each in _epochs(fleet) if each.branch is not None]
    assert [(each.timeline, each.is_step) for each in branches] == [(1, False), (2, True), (2, False)]


def test_a_slot_that_was_not_in_step_is_lost(pair: Pair) -> None:
    reader = pair.fleet.reader()
    standby = pair.standby(keeps_slots=False)
    pair.deliver("a")
    _promoted_after_its_end(pair, standby, reader)
    _refused(pair, "SLOT_MISSING")


def test_before_17_no_slot_comes_along(old_pair: Pair) -> None:
    reader = old_pair.fleet.reader()
    standby = old_pair.standby()
    old_pair.deliver("a")
    _promoted_after_its_end(old_pair, standby, reader)
    _refused(old_pair, "SLOT_MISSING")


def test_rows_that_the_new_primary_never_had_are_a_forked_history(pair: Pair) -> None:
    """Without synchronized_standby_slots they are delivered before the standby has them."""
    fleet = pair.fleet
    reader = fleet.reader()
    standby = pair.standby()
    pair.deliver("a")
    standby.follow_slot(fleet.slot)
    standby.let_go()
    pair.deliver("beyond")
    _promoted_after_its_end(pair, standby, reader)
    log = _refused(pair, "HISTORY_FORKED")
    assert "the raw topic reaches to" in log
    assert "sink topics reaches to" in log
    assert "synchronized_standby_slots" in log
    pair.write(*"xyz")
    _refused(pair, "HISTORY_FORKED")


def test_a_restored_primary_is_on_a_new_timeline_too_and_stays_lost(pair: Pair) -> None:
    """Its slot is there, and all that was delivered: but nobody kept that slot in step."""
    fleet = pair.fleet
    reader = fleet.reader()
    pair.deliver("a")
    assert fleet.stop(reader) == ExitCode.CLEAN
    pair.primary.stop()
    (pair.primary.data / "standby.signal").touch()
    pair.primary.start()
    fleet.sql("SELECT pg_promote(true, 60)")
    assert "was not kept in step" in _refused(pair, "FAILOVER_UNPROVEN")


def test_an_old_primary_that_is_left_alive_counts_for_nothing(pair: Pair) -> None:
    """Its reader is fenced by the epoch's number, and refused when it comes again."""
    fleet = pair.fleet
    zombie = fleet.reader()
    standby = pair.standby()
    _protect(pair)
    pair.deliver("a")
    standby.follow_slot(fleet.slot)
    standby.promote()
    old = fleet.dsn
    pair.point_at(standby)
    reader = fleet.reader()
    pair.deliver("b")

    with psycopg.connect(old, autocommit=True) as connection:
        connection.execute("INSERT INTO orders (note) VALUES ('never')")
        connection.execute("ALTER SYSTEM RESET synchronized_standby_slots")
        connection.execute("SELECT pg_reload_conf()")
    assert fleet.exit_code(zombie) == ExitCode.RETRY
    if reader.poll() is None:
        fleet.stop(reader)
    reader = fleet.reader()
    pair.deliver("c")
    assert inserted(fleet) == ["a", "b", "c"]
    assert fleet.stop(reader) == ExitCode.CLEAN

    pair.point_at(pair.primary)
    assert "timeline 1, the pipeline has gone on to timeline 2" in _refused(pair, "SOURCE_OLD_PRIMARY")
    with fleet.redis() as client:
        client.flushall()
    _refused(pair, "SOURCE_OLD_PRIMARY")


def _protect(pair: Pair) -> None:
    """Nothing is decoded that the standby does not have."""
    pair.fleet.sql(f"ALTER SYSTEM SET synchronized_standby_slots = '{PHYSICAL_SLOT}'")
    pair.fleet.sql("SELECT pg_reload_conf()")


def _promoted_after_its_end(pair: Pair, standby: Standby, reader: Any) -> None:
    """The primary goes, with its reader; the standby takes its place."""
    pair.fleet.stop(reader)
    pair.primary.stop()
    standby.promote()
    pair.point_at(standby)


def _refused(pair: Pair, code: str) -> str:
    fleet = pair.fleet
    records = len(fleet.records())
    assert fleet.exit_code(fleet.start(), within_seconds=60) == ExitCode.LOST, fleet.log()
    assert fleet.status().failure.code == code
    assert len(fleet.records()) == records
    return str(fleet.log())


def _epochs(fleet: Any) -> list[EpochRecord]:
    return [decode_epoch(each.body) for each in fleet.frames() if each.header.kind is FrameKind.EPOCH]


def _lineage(fleet: Any) -> Lineage:
    with fleet.redis() as client:
        value = client.get(lineage_key(fleet.name))
    assert isinstance(value, bytes)
    return decode_lineage(value)
