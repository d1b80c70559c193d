"""What `sinks/base.py` promises, kept by every sink: one suite, real servers, a second client that looks."""

import contextlib
import pickle
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kit.frames import ORDERS, RawLog, row
from kit.sink_rigs import RIGS, Rig, cursor_behind, holder, wal_frames

from tidegate.contracts.dead_letter import DeadLetter, FrameAddress
from tidegate.errors import ConfigError, TransientError
from tidegate.pgoutput.messages import UNCHANGED, Delete, OldKind, Truncate, Update
from tidegate.position import BEGINNING
from tidegate_processor.dead_letters import dead_letter
from tidegate_processor.sinks.base import Sink

PING_SECONDS = 12.0
CANARY = "canary-7f3a"
RELATION = ORDERS.relation_id


@pytest.fixture(params=RIGS)
def rig(request: pytest.FixtureRequest, tmp_path: Path, prefix: str, kafka) -> Rig:
    more = {"postgres": request.getfixturevalue("postgres")} if request.param == "pg_table" else {}
    return RIGS[request.param](prefix, kafka.bootstrap, "redis://127.0.0.1:1", tmp_path, **more)


@pytest.fixture
def make(rig: Rig) -> Iterator[type[Sink]]:
    """Sinks that are closed in the end, whatever became of them."""
    made: list[Sink] = []

    def make() -> Sink:
        made.append(rig.make())
        return made[-1]

    yield make
    for sink in made:
        sink.close()


@pytest.fixture
def log() -> RawLog:
    log = RawLog()
    log.epoch()
    log.transaction(row(1, "one"), row(2, "two"))
    log.transaction(row(3, "three"), Update(RELATION, None, None, (b"1", b"uno")))
    return log


def test_what_is_committed_is_durable_together_with_its_cursor(rig: Rig, make, log) -> None:
    sink, (first, second) = make(), wal_frames(log)

    begins_at = sink.open()
    receipts = [sink.write(first, BEGINNING), sink.write(second, first.header.last)]
    sink.commit(cursor_behind(second))

    assert begins_at is None
    assert [(receipt.events, receipt.rejected) for receipt in receipts] == [(2, ()), (2, ())]
    assert rig.rows() == {1: "uno", 2: "two", 3: "three"}
    assert rig.cursor() == cursor_behind(second)


def test_the_next_holder_reads_the_cursor_that_was_committed_last(rig: Rig, make, log) -> None:
    first, second = wal_frames(log)
    sink = make()
    sink.open()
    for frame in (first, second):
        sink.write(frame, BEGINNING)
        sink.commit(cursor_behind(frame))
    sink.close()

    assert make().open() == cursor_behind(second)


def test_a_cursor_alone_is_committed_too_and_may_go_back(rig: Rig, make, log) -> None:
    """A frame without rows, and a rewind."""
    first, second = wal_frames(log)
    sink = make()
    sink.open()
    sink.commit(cursor_behind(second))
    sink.commit(replace(cursor_behind(first), rewound_from=second.header.last, incarnation=2))
    sink.close()

    assert make().open() == replace(cursor_behind(first), rewound_from=second.header.last, incarnation=2)


def test_what_was_written_and_not_committed_leaves_nothing_behind_a_close(rig: Rig, make, log) -> None:
    first, second = wal_frames(log)
    sink = make()
    sink.open()
    sink.write(first, BEGINNING)
    sink.commit(cursor_behind(first))
    sink.write(second, first.header.last)
    sink.close()
    sink.close()

    assert rig.rows() == {1: "one", 2: "two"}
    assert sink.open() == cursor_behind(first)


def test_a_closed_sink_commits_nothing(rig: Rig, make, log) -> None:
    frame = wal_frames(log)[0]
    sink = make()
    sink.open()
    sink.write(frame, BEGINNING)
    sink.close()

    with pytest.raises(TransientError) as raised:
        sink.commit(cursor_behind(frame))

    assert raised.value.code == "SINK_CLOSED"


@pytest.mark.parametrize("until", ["written", "committed"])
def test_killed_between_write_and_commit_or_behind_it(rig: Rig, make, log, until: str) -> None:
    """What the dead one committed is there once; what it did not is delivered by the next one."""
    with holder(rig, log, until) as process:
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    frames = wal_frames(log)

    sink = make()
    cursor = sink.open()
    before = cursor.position if cursor else BEGINNING
    for frame in frames:
        sink.write(frame, before)
    sink.commit(cursor_behind(frames[-1]))

    assert cursor == (cursor_behind(frames[-1]) if until == "committed" else None)
    assert rig.rows() == {1: "uno", 2: "two", 3: "three"}
    ids = rig.ids()
    assert ids is None or len(ids) == len(set(ids)) == 4


def test_a_replay_has_no_effect_or_repeats_what_the_sink_says_it_may(rig: Rig, make, log) -> None:
    """The commit of the first came through, and its answer was lost."""
    frames = wal_frames(log)
    for _ in range(2):
        sink = make()
        cursor = sink.open()
        for frame in frames:
            sink.write(frame, cursor.position if cursor else BEGINNING)
        sink.commit(cursor_behind(frames[-1]))
        sink.close()

    assert rig.rows() == {1: "uno", 2: "two", 3: "three"}
    ids = rig.ids()
    assert ids is None or len(ids) == 4


def test_of_two_holders_the_older_one_can_not_commit(rig: Rig, make, log) -> None:
    first, second = wal_frames(log)
    old, new = make(), make()
    old.open()
    old.write(first, BEGINNING)

    assert new.open() is None
    new.write(first, BEGINNING)
    new.write(second, first.header.last)
    new.commit(cursor_behind(second, incarnation=2))
    with pytest.raises(TransientError):
        old.commit(cursor_behind(first))

    assert rig.cursor() == cursor_behind(second, incarnation=2)
    assert rig.rows() == {1: "uno", 2: "two", 3: "three"}
    if old.capabilities.exactly_once:
        ids = rig.ids()
        assert ids is None or len(ids) == 4


def test_ping_answers_where_the_target_is_there(rig: Rig, make) -> None:
    make().ping()


def test_ping_fails_fast_and_says_what_to_do_where_it_is_not(rig: Rig) -> None:
    sink = rig.unreachable()
    began = time.monotonic()

    with pytest.raises((TransientError, ConfigError)) as raised:
        sink.ping()

    assert time.monotonic() - began < PING_SECONDS
    assert raised.value.code
    assert raised.value.remedy


def test_a_row_that_can_not_be_delivered_is_rejected_and_the_rest_arrives(rig: Rig, make) -> None:
    log = RawLog()
    log.epoch()
    log.transaction(row(1, "one"), replace(row(2), new=(b"2", b"\xff\xfe" + CANARY.encode())), row(3, "three"))
    (frame,) = wal_frames(log)
    sink = make()
    sink.open()

    receipt = sink.write(frame, BEGINNING)
    sink.write_dead_letters(letters_of(receipt.rejected))
    sink.commit(cursor_behind(frame))

    assert [(each.ordinal, each.error.code) for each in receipt.rejected] == [(1, "VALUE_NOT_UTF8")]
    assert CANARY not in str(receipt.rejected[0].error)
    assert rig.rows() == {1: "one", 3: "three"}
    assert [letter.position.ordinal for letter in rig.letters()] == [1]


def test_changes_of_a_key_take_effect_in_commit_order(rig: Rig, make) -> None:
    log = RawLog()
    log.epoch()
    log.transaction(row(1, "a"), Update(RELATION, None, None, (b"1", b"b")), row(2, "x"))
    log.transaction(Delete(RELATION, OldKind.KEY, (b"1", None)), row(1, "c"), row(9, "nine"))
    log.transaction(Update(RELATION, OldKind.KEY, (b"2", None), (b"5", b"moved")), row(2, "again"))
    log.transaction(*(Update(RELATION, None, None, (b"9", b"%d" % at)) for at in range(200)))
    log.transaction(Delete(RELATION, OldKind.KEY, (b"9", None)))

    deliver(make(), log)

    assert rig.rows() == {1: "c", 5: "moved", 2: "again"}


def test_a_truncate_takes_what_stood_before_it_and_nothing_behind(rig: Rig, make) -> None:
    log = RawLog()
    log.epoch()
    log.transaction(row(1, "one"))
    log.transaction(row(2, "two"), Truncate((RELATION,), 0), row(3, "three"))

    deliver(make(), log)

    assert rig.rows() == {3: "three"}


def test_a_value_that_was_not_sent_never_overwrites(rig: Rig, make) -> None:
    log = RawLog()
    log.epoch()
    log.transaction(row(1, "large"), row(2, "other"), row(3, "third"))
    log.transaction(Update(RELATION, None, None, (b"1", UNCHANGED)))
    log.transaction(row(4, "fourth"), Update(RELATION, None, None, (b"4", UNCHANGED)))
    if make().capabilities.keyed:
        log.transaction(Update(RELATION, OldKind.KEY, (b"3", None), (b"7", UNCHANGED)))

    deliver(make(), log)

    kept = {7: "third"} if make().capabilities.keyed else {3: "third"}
    assert rig.rows() == {1: "large", 2: "other", 4: "fourth"} | kept


def test_errors_of_a_sink_travel_between_processes(rig: Rig) -> None:
    with pytest.raises((TransientError, ConfigError)) as raised:
        rig.unreachable().ping()

    again = pickle.loads(pickle.dumps(raised.value))

    assert (str(again), again.code, again.remedy) == (str(raised.value), raised.value.code, raised.value.remedy)


def deliver(sink: Sink, log: RawLog) -> None:
    """Each frame with a commit of its own."""
    cursor = sink.open()
    position = cursor.position if cursor else BEGINNING
    for frame in wal_frames(log):
        assert sink.write(frame, position).rejected == ()
        position = frame.header.last
        sink.commit(cursor_behind(frame))
    with contextlib.suppress(TransientError):
        sink.close()


def letters_of(rejected) -> list[DeadLetter]:
    address = FrameAddress("topic", 1, 1, 1)
    return [
        dead_letter(each, pipeline="shop", lane="events", generation="g", frame=address, now=0) for each in rejected
    ]
