"""What a clock of the benches believes, and what a run that lost something says."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest
from bench import growth, session
from bench.contestants.base import ContestantError
from bench.contestants.tidegate import Realtime
from bench.measure.consumer import Verdict, together
from bench.outcome import Phase, SessionResult
from bench.reader import Arrivals
from bench.source import flushed_end

from tidegate.contracts.frame import Frame, decode_frame
from tidegate.contracts.generation import Generation
from tidegate.lsn import Lsn, parse_lsn
from tidegate.pgoutput.encode import encode_message
from tidegate.pgoutput.messages import Begin, Column, Commit, Insert, LogicalMessage, Message, Relation, ReplicaIdentity
from tidegate.pgoutput.wire import XLogData, encode_envelope
from tidegate.position import BEGINNING
from tidegate_reader.framer import Framer
from tidegate_reader.frames import EpochStamp

LIVE = Relation(7, "public", "live", ReplicaIdentity.DEFAULT, (Column(1, "id", 20, -1),))
OTHER = Relation(8, "public", "wide", ReplicaIdentity.DEFAULT, (Column(1, "id", 20, -1),))


def frames_of(*transactions: Message | None) -> list[Frame]:
    stamp = EpochStamp(Generation(7, 1, "shop", "slot", b"n" * 16), 1, b"e" * 16, 0)
    framer = Framer(
        stamp, max_frame_bytes=5000, linger_seconds=0, position=BEGINNING, safe_lsn=Lsn(0), skip_to=BEGINNING,
        next_seq=1, wall_clock=lambda: 0,
    )  # fmt: skip
    messages: list[Message] = []
    for number, change in enumerate(transactions, 1):
        lsn = Lsn(number * 100)
        made = change or LogicalMessage(True, lsn, "tidegate", b"watermark")
        messages += [Begin(lsn, number, number), LIVE, OTHER, made, Commit(lsn, Lsn(lsn + 40), number)]
    fed = framer.feed([encode_envelope(XLogData(Lsn(1), Lsn(1), 0, encode_message(each))) for each in messages], 0.0)
    return [decode_frame(each.data) for each in [*fed, *framer.finish(0.0)]]


def test_a_watermark_does_not_stand_for_a_commit_that_was_lost() -> None:
    """Every COMMIT was counted, and beside a snapshot there are more of them than transactions were written."""
    arrivals = Arrivals()
    found = [at for frame in frames_of(None, Insert(7, (b"1",)), Insert(8, (b"1",)), None) for at in arrivals.of(frame)]
    assert found == [2]


def test_no_lane_makes_good_what_another_has_lost() -> None:
    whole, lacking = Verdict(2, keeps_order=False), Verdict(2, keeps_order=False)
    for verdict, numbers in ((whole, (0, 1, 1)), (lacking, (0,))):
        for number in numbers:
            verdict.see("t", number, number)
    assert (together([whole, lacking]).lost, together([whole, lacking]).doubled) == (1, 1)


@pytest.mark.parametrize(("doubled", "total"), [(0, 20), (1, 20), (0, 21)])
def test_no_speed_is_told_of_events_that_came_twice_or_after_the_end(
    doubled: int, total: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = SimpleNamespace(
        seconds=1.0, contestant_cpu=1.0, broker_cpu=1.0, source_cpu=1.0, rss_peak_mb=1.0, others_share=0.0,
        stolen_share=0.0, is_noisy=False,
    )  # fmt: skip
    watch = SimpleNamespace(end=lambda: spent, mark=lambda: None)

    class Watching:
        def __enter__(self) -> Any:
            return watch

        def __exit__(self, *_: object) -> None:
            pass

    def done(*_: object, **__: object) -> None:
        pass

    contestant = SimpleNamespace(
        pause=done,
        resume=done,
        check=done,
        label="one",
        topics=lambda: (),
        copies=lambda table: (table, f"lane1.{table}"),
    )
    source = SimpleNamespace(make_slot=done, write=done, limit=lambda: (1.0, 1.0))
    kafka = SimpleNamespace(folder=Path("nowhere"), bootstrap="")
    parts = (contestant, source, kafka, [], [], 0, SessionResult("one", "18", 0))
    subject = session.Session(*cast(Any, parts))
    judged: list[tuple[str, ...]] = []

    def copy(_workload: object, topics: tuple[str, ...]) -> Verdict:
        judged.append(topics)
        return Verdict(0, keeps_order=False, doubled=doubled)

    monkeypatch.setattr(subject, "_judged_copy", copy)
    monkeypatch.setattr(subject, "_watch", Watching)
    monkeypatch.setattr(session, "bytes_of_topics", lambda *_: 0)
    # What a clock says is judged here; `test_ends.py` asks it of a real broker.
    monkeypatch.setattr(session.Ends, "stood", lambda *_: 20)
    monkeypatch.setattr(session.Ends, "total", lambda _: total)
    monkeypatch.setattr(logging.getLogger("bench"), "warning", done)
    phase, workload = Phase("wide"), SimpleNamespace(name="wide", tables=("a", "b"), events=10)
    if total != 20:
        with pytest.raises(ContestantError, match="after the clock"):
            subject._backlog(cast(Any, workload), phase)
        return
    subject._backlog(cast(Any, workload), phase)
    assert judged == [("a", "b"), ("lane1.a", "lane1.b")]
    assert bool(phase.figures) is (doubled == 0)


def test_growth_is_not_sound_if_a_point_lost_events() -> None:
    good = {"problem": "", "figures": {"events_per_second": 1.0}}
    assert growth.is_sound({"lanes": [good]})
    assert not growth.is_sound({"lanes": [good, good | {"problem": "3 events lost", "figures": {}}]})


def test_the_redis_of_a_contestant_is_in_its_bill() -> None:
    subject = SimpleNamespace(
        reader=SimpleNamespace(pid=1),
        processor=SimpleNamespace(pid=2),
        rig=SimpleNamespace(redis=SimpleNamespace(pid=3)),
    )
    assert list(Realtime.pids(cast(Any, subject))) == [1, 2, 3]


def test_the_limit_is_not_measured_on_wal_that_is_not_flushed(database: Any) -> None:
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE many (n bigint)")
        with psycopg.connect(database.dsn, autocommit=True) as writer:
            writer.execute("SET synchronous_commit = off")
            writer.execute("INSERT INTO many SELECT generate_series(1, 20000)")
            row = writer.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        assert row is not None
        assert parse_lsn(flushed_end(connection)) >= parse_lsn(row[0])
