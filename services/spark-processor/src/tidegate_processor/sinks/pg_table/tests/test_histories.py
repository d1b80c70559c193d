"""Any history of a table, cut anywhere into frames and given twice, ends in the target as it ended in the source; and
what others do to the target meanwhile ends the lane in time, with nothing half done."""

import threading
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kit.frames import ORDERS, RawLog, row
from kit.histories import History, histories
from kit.made_frames import frame_of
from kit.proxy import Proxy
from kit.sink_rigs import PgTableRig, cursor_behind, wal_frames

from tidegate.errors import TransientError
from tidegate.lsn import Lsn
from tidegate.pgoutput.messages import UNCHANGED, Begin, Insert, Message, OldKind, Truncate, Update
from tidegate.position import BEGINNING
from tidegate_processor.sinks.shared import postgres as connections


@pytest.fixture
def rig(prefix: str, kafka, postgres, tmp_path: Path) -> PgTableRig:
    return PgTableRig(prefix, kafka.bootstrap, "redis://127.0.0.1:1", tmp_path, postgres)


def one_row() -> RawLog:
    log = RawLog()
    log.epoch()
    log.transaction(row(1, "one"))
    return log


def test_any_history_ends_in_the_target_as_it_ended_in_the_source(rig: PgTableRig) -> None:
    cursor = cursor_behind(wal_frames(one_row())[0])
    sink = rig.make()
    sink.open()

    def write(changes: list[Message]) -> None:
        if changes:
            frame = frame_of([ORDERS], [Begin(Lsn(9), 5, 7), *changes])
            assert sink.write(frame, BEGINNING).rejected == ()

    @settings(max_examples=60, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(histories(truncates=True), st.integers(0, 12))
    def deliver(history: History, cut: int) -> None:
        there = [Insert(ORDERS.relation_id, (key, value)) for key, value in history.before.items()]
        write([Truncate((ORDERS.relation_id,), 0), *there])
        write(history.changes[:cut])
        write(history.changes[cut:])
        sink.commit(cursor)
        found = {b"%d" % key: value and value.encode() for key, value in rig.rows().items()}
        assert found == history.after

    deliver()
    sink.close()


def test_a_rewind_that_repeats_a_key_that_moved_ends_where_it_had_ended(rig: PgTableRig) -> None:
    log = one_row()
    log.transaction(Update(ORDERS.relation_id, OldKind.KEY, (b"1", None), (b"7", UNCHANGED)))
    first, second = wal_frames(log)
    sink = rig.make()
    sink.open()
    for frame in (first, second, second, first, second):
        assert sink.write(frame, BEGINNING).rejected == ()
        sink.commit(cursor_behind(frame))
    sink.close()

    assert rig.rows() == {7: "one"}


def test_a_holder_whose_link_went_deaf_keeps_the_next_one_waiting_for_a_moment_and_commits_nothing(
    rig: PgTableRig, monkeypatch
) -> None:
    monkeypatch.setattr(connections, "_PINS", {**connections._PINS, "idle_in_transaction_session_timeout": "1000"})
    (frame,) = wal_frames(one_row())
    with Proxy(rig.postgres.host, rig.postgres.port).running() as proxy:
        old = rig.make(rig.configured(dsn=rig.plain_dsn(proxy.port)))
        old.open()
        old.write(frame, BEGINNING)
        proxy.hold()

        new = rig.make()
        assert new.open() is None
        new.write(frame, BEGINNING)
        new.commit(cursor_behind(frame, incarnation=2))
        new.close()
        proxy.release()
        with pytest.raises(TransientError):
            old.commit(cursor_behind(frame))
        old.close()

    assert rig.cursor() == cursor_behind(frame, incarnation=2)
    assert rig.rows() == {1: "one"}


def test_a_table_that_somebody_has_locked_ends_the_lane_in_time_and_the_next_one_goes_on(
    rig: PgTableRig, monkeypatch
) -> None:
    (frame,) = wal_frames(one_row())
    rig.ask("CREATE TABLE public.orders (id int PRIMARY KEY, note text)")
    monkeypatch.setattr(connections, "_PINS", {**connections._PINS, "lock_timeout": "300"})
    sink = rig.make()
    sink.open()
    with psycopg.connect(rig.dsn) as other:
        other.execute("LOCK TABLE public.orders IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(TransientError) as raised:
            sink.write(frame, BEGINNING)
    sink.close()

    assert raised.value.code == "SINK_PG_UNAVAILABLE"
    sink.open()
    sink.write(frame, BEGINNING)
    sink.commit(cursor_behind(frame))
    sink.close()
    assert rig.rows() == {1: "one"}


def test_two_lanes_that_make_their_places_at_once_both_get_theirs(rig: PgTableRig) -> None:
    outcomes: list[str] = []

    def open_one(at: int) -> None:
        sink = rig.make()
        try:
            sink.open()
            outcomes.append("open")
        except TransientError as error:
            outcomes.append(error.code)
        finally:
            sink.close()

    threads = [threading.Thread(target=open_one, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert set(outcomes) <= {"open", "SINK_PG_UNAVAILABLE"}
    assert "open" in outcomes
