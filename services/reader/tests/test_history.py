"""A server put back from a disk snapshot looks like one that crashed; what it sends gives it away."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import RecordsToDelete
from kit.raw_topic import administer, inserted
from kit.wait import wait

from tidegate.contracts.ack import Ack
from tidegate.contracts.epoch import StreamOptions
from tidegate.errors import ExitCode, StreamError
from tidegate.lsn import Lsn
from tidegate.position import BEGINNING, MAX_ORDINAL, Position
from tidegate.stack.postgres import Postgres
from tidegate_reader.history import HistoryCheck, Told, told_by_sinks

OPTIONS = StreamOptions(("p",), 4, messages=True)
TOLD = Told(Lsn(500), Lsn(540), (7, 70), OPTIONS)
OTHER_OPTIONS = StreamOptions(("p", "q"), 4, messages=True)


def _ack(commit_lsn: int, ordinal: int, safe_lsn: int) -> Ack:
    place = {"position": Position(Lsn(commit_lsn), ordinal), "safe_lsn": Lsn(safe_lsn)}
    return Ack("a", "generation", 1, "topic", 7, **place, time=1, config_epoch="c1")


@pytest.mark.parametrize("options", [OPTIONS, OTHER_OPTIONS])
def test_the_last_transaction_again_and_then_new_ones_are_our_history(options: StreamOptions) -> None:
    check = HistoryCheck(TOLD, Lsn(400), options)
    assert [check.begins(Lsn(at), xid, xid * 10) for at, xid in ((450, 6), (500, 7), (540, 8))] == [True, True, False]


@pytest.mark.parametrize("other", [(8, 70), (7, 71)])
def test_another_transaction_at_its_place_is_another_history_whatever_was_asked_for(other: tuple[int, int]) -> None:
    check = HistoryCheck(TOLD, Lsn(0), OTHER_OPTIONS)
    with pytest.raises(StreamError) as raised:
        check.begins(Lsn(500), *other)
    assert raised.value.code == "SOURCE_WENT_BACK"


@pytest.mark.parametrize(("start", "commit_lsn"), [(500, 600), (501, 530)])
def test_one_that_is_missing_and_one_that_is_new_are_another_history_if_the_same_was_asked_for(
    start: int, commit_lsn: int
) -> None:
    with pytest.raises(StreamError):
        HistoryCheck(TOLD, Lsn(start), OPTIONS).begins(Lsn(commit_lsn), 9, 90)
    HistoryCheck(TOLD, Lsn(start), OTHER_OPTIONS).begins(Lsn(commit_lsn), 9, 90)


@pytest.mark.parametrize(("start", "commit_lsn"), [(500, 600), (501, 530)])
def test_restored_where_nobody_knows_the_options(start: int, commit_lsn: int) -> None:
    """Retention took the epoch frame and Redis was emptied: they count as the same."""
    with pytest.raises(StreamError) as raised:
        HistoryCheck(replace(TOLD, options=None), Lsn(start), OPTIONS).begins(Lsn(commit_lsn), 9, 90)
    assert raised.value.code == "SOURCE_WENT_BACK"


def test_where_nothing_is_left_of_the_raw_topic_the_sinks_tell_its_last_transaction() -> None:
    """A server was put back beneath it and written beyond what sinks had: they got changes of two histories."""
    told = told_by_sinks([_ack(400, 3, 440), _ack(500, 1, 520)], OPTIONS)
    assert told is not None
    assert (told.position, told.safe_lsn, told.reached) == (Position(Lsn(500), 1), 520, 520)
    with pytest.raises(StreamError) as raised:
        HistoryCheck(told, Lsn(400), OPTIONS).begins(Lsn(600), 9, 90)
    assert raised.value.code == "SOURCE_WENT_BACK"
    HistoryCheck(told, Lsn(501), OPTIONS).begins(Lsn(600), 9, 90)


@pytest.mark.parametrize("acks", [[], [_ack(500, MAX_ORDINAL, 501)]])
def test_sinks_that_have_no_transaction_tell_of_none(acks: list[Ack]) -> None:
    told = told_by_sinks(acks, OPTIONS)
    assert told is None or not HistoryCheck(told, Lsn(400), OPTIONS).awaits_last


@pytest.mark.parametrize(
    ("skip_to", "is_ahead"), [(BEGINNING, True), (Position(Lsn(499), 9), True), (TOLD.position, False)]
)
def test_who_frames_what_lies_before_the_last_transaction_has_to_ask_for_it(skip_to: Position, is_ahead: bool) -> None:
    """A re-feed does, and who goes on where one was cut short."""
    assert HistoryCheck(TOLD, Lsn(0), OPTIONS).is_ahead_of(skip_to) == is_ahead


def test_one_before_a_last_transaction_that_is_not_complete_is_another_history() -> None:
    """All before it was complete, up to what the raw topic covers."""
    told = Told(Lsn(500), Lsn(440), (7, 70), OPTIONS)
    check = HistoryCheck(told, Lsn(400), OPTIONS)
    assert check.begins(Lsn(430), 6, 60)
    with pytest.raises(StreamError):
        check.begins(Lsn(450), 9, 90)
    assert HistoryCheck(told, Lsn(400), OTHER_OPTIONS).begins(Lsn(450), 9, 90)


def test_a_server_whose_wal_ends_below_what_is_awaited_is_not_waited_for() -> None:
    """It has nothing to send, and would be asked for ever."""
    check = HistoryCheck(TOLD, Lsn(400), OPTIONS)
    check.ends(Lsn(501))
    with pytest.raises(StreamError) as raised:
        check.ends(Lsn(500))
    assert raised.value.code == "SOURCE_WENT_BACK"


@pytest.mark.parametrize("start", [500, 400])
def test_a_last_transaction_is_awaited_though_retention_has_taken_its_xid(start: int) -> None:
    check = HistoryCheck(replace(TOLD, transaction=None), Lsn(start), OPTIONS)
    with pytest.raises(StreamError):
        check.passes(Lsn(501))
    assert check.begins(Lsn(500), 7, 70)
    check.passes(Lsn(501))


def test_where_the_raw_topic_begins_no_transaction_is_awaited() -> None:
    check = HistoryCheck(replace(TOLD, safe_lsn=Lsn(501), transaction=None, ordinal=MAX_ORDINAL), Lsn(400), OPTIONS)
    check.passes(Lsn(600))
    assert not check.begins(Lsn(600), 9, 90)


def test_a_server_that_starts_behind_the_last_transaction_need_not_send_it() -> None:
    assert HistoryCheck(TOLD, Lsn(501), OPTIONS).begins(Lsn(540), 9, 90) is False


def test_a_disk_snapshot_put_back_and_written_past_the_raw_topic_is_noticed(
    own_postgres: Postgres, fleet_on: Callable[[str], Any]
) -> None:
    """Old history: 'b'. The other one: 'x', and more WAL than the old one had."""
    fleet = fleet_on(own_postgres.dsn())
    _deliver(fleet, ["a"])
    saved = _disk_snapshot(own_postgres)
    _deliver(fleet, ["a", "b"])
    tail = fleet.frames()[-1].header

    _put_back(own_postgres, saved)
    fleet.sql("INSERT INTO orders (note) VALUES ('x')")
    _write_past(fleet, tail.safe_lsn)

    assert fleet.exit_code(fleet.start()) == ExitCode.LOST
    assert "SOURCE_WENT_BACK" in fleet.log()
    assert inserted(fleet) == ["a", "b"]


def test_what_a_disk_that_was_put_back_writes_where_ours_was_idle_is_noticed(
    own_postgres: Postgres, fleet_on: Callable[[str], Any]
) -> None:
    """Acked as far as the idle stream had come, and confirmed only in the history that is gone."""
    fleet = fleet_on(own_postgres.dsn())
    _deliver(fleet, ["a"])
    saved = _disk_snapshot(own_postgres)
    reader = fleet.reader()
    _write_past(fleet, Lsn(fleet.wal_end() + 100_000))
    idle = fleet.wal_end()
    wait(lambda: fleet.frames()[-1].header.safe_lsn >= idle, 20, "the idle stream is in the raw topic")
    fleet.ack_everything()
    assert fleet.stop(reader) == ExitCode.CLEAN

    _put_back(own_postgres, saved)
    fleet.sql("INSERT INTO orders (note) VALUES ('x')")
    _write_past(fleet, Lsn(idle + 1_000_000))

    assert fleet.exit_code(fleet.start()) == ExitCode.LOST
    assert "SOURCE_WENT_BACK" in fleet.log()


def test_restored_with_the_last_transaction_trimmed(own_postgres: Postgres, fleet_on: Callable[[str], Any]) -> None:
    """Nothing is acked, and retention has left a frame without rows: all has to be fed again. What the other history
    has below the last transaction must not come before its lack is noticed."""
    fleet = fleet_on(own_postgres.dsn())
    _read(fleet, ["a"])
    saved = _disk_snapshot(own_postgres)
    _read(fleet, ["a", "b"])
    tail = fleet.frames()[-1].header
    assert tail.messages == 0

    _put_back(own_postgres, saved)
    fleet.sql("INSERT INTO orders (note) VALUES ('x')")
    _write_past(fleet, tail.safe_lsn)
    end = _trim(fleet)

    assert fleet.exit_code(fleet.start()) == ExitCode.LOST
    assert "SOURCE_WENT_BACK" in fleet.log()
    assert end == fleet.records()[-1].offset + 1


def test_what_retention_took_is_fed_again_where_the_history_is_ours(fleet: Any) -> None:
    """The last transaction is asked for first, and is there."""
    _read(fleet, ["a"])
    _read(fleet, ["a", "b"])
    _trim(fleet)

    fleet.reader()

    wait(lambda: inserted(fleet) == ["a", "b"], 20, "what retention took is there again")


def _trim(fleet: Any) -> int:
    """As retention does, but for the last record; where the raw topic ends."""
    last = int(fleet.records()[-1].offset)
    administer(fleet.bootstrap, "delete_records", {TopicPartition(fleet.topic, 0): RecordsToDelete(last)})
    return last + 1


def _read(fleet: Any, notes: list[str]) -> None:
    """The last of them is written and in the raw topic, and nobody has acked it."""
    reader = fleet.reader()
    fleet.sql("INSERT INTO orders (note) VALUES (%s)", notes[-1])
    wait(lambda: inserted(fleet) == notes, 10, "the row is in the raw topic")
    wait(lambda: fleet.frames()[-1].header.messages == 0, 10, "a frame without rows follows")
    assert fleet.stop(reader) == ExitCode.CLEAN


def _deliver(fleet: Any, notes: list[str]) -> None:
    """The last of them is written, acked and confirmed."""
    reader = fleet.reader()
    fleet.sql("INSERT INTO orders (note) VALUES (%s)", notes[-1])
    wait(lambda: inserted(fleet) == notes, 10, "the row is in the raw topic")
    last = fleet.records()[-1]
    fleet.ack(last)
    wait(lambda: fleet.confirmed() >= last.frame.header.safe_lsn, 10, "the slot follows the ack")
    assert fleet.stop(reader) == ExitCode.CLEAN


def _disk_snapshot(server: Postgres) -> Path:
    server.stop()
    saved = server.data.with_name("saved")
    shutil.copytree(server.data, saved, symlinks=True)
    server.start()
    return saved


def _put_back(server: Postgres, saved: Path) -> None:
    server.stop()
    owner = server.data.stat()
    for path in list(server.data.iterdir()):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    shutil.copytree(saved, server.data, symlinks=True, dirs_exist_ok=True)
    for path in [server.data, *server.data.rglob("*")]:
        shutil.chown(path, owner.st_uid, owner.st_gid)
    server.start()


def _write_past(fleet: Any, lsn: Lsn) -> None:
    """Nothing that is published."""
    fleet.sql("CREATE TABLE IF NOT EXISTS unpublished (content text)")
    while fleet.wal_end() <= lsn:
        fleet.sql("INSERT INTO unpublished SELECT repeat('x', 1000) FROM generate_series(1, 100)")
