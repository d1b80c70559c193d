"""Where a run begins, case by case: skip only what every required sink can still read, and never go on over a gap."""

from dataclasses import replace
from functools import partial

import pytest
from kit.starts import GENERATION, SLOT, TAIL, acks, log

from tidegate.contracts.epoch import EpochMode
from tidegate.contracts.lineage import Lineage
from tidegate.errors import StreamError
from tidegate.lsn import Lsn
from tidegate.position import BEGINNING, Position, before
from tidegate_reader import resume
from tidegate_reader.raw_log import RawLog
from tidegate_reader.resume import SourceIdentity, generation_of, start_lsn, uncovered

NOW = 1_795_000_000_000
plan = partial(resume.plan, now=NOW)
SOURCE = SourceIdentity(7, 1, "shop", "slot")
EMPTY = RawLog(0, 0, None, None)


def test_a_whole_log_is_continued_and_its_tail_skipped() -> None:
    decided = plan(SLOT, acks(a=400), ["a"], log(), "topic")
    assert (decided.mode, decided.number) == (EpochMode.CONTINUE, 5)
    assert decided.skip_to == decided.position == TAIL.position
    assert decided.safe_lsn == TAIL.safe_lsn
    assert decided.previous is not None
    assert (decided.previous.last_seq, decided.previous.last_offset) == (30, 40)


def test_a_trimmed_log_is_fed_again_where_the_server_has_it_all() -> None:
    decided = plan(SLOT, acks(a=400), ["a"], log(Position(Lsn(450), 0), beginning=35), "topic")
    assert (decided.mode, decided.skip_to) == (EpochMode.REFEED, BEGINNING)
    assert (decided.position, decided.safe_lsn) == (before(Lsn(300)), 300)


def test_a_re_feed_remembers_the_last_transaction_before_it() -> None:
    """Else the raw topic tells the next start nothing of the server's history."""
    had = {sink: replace(each, position=Position(Lsn(390), 2)) for sink, each in acks(a=430, behind=410).items()}
    slot, emptied = replace(SLOT, confirmed=Lsn(420)), RawLog(40, 40, None, None)
    assert plan(slot, had, ["a"], emptied, "topic").position == Position(Lsn(390), 2)
    assert plan(slot, had, [], emptied, "topic").position == before(Lsn(420))
    beyond = {"a": replace(had["a"], position=Position(Lsn(420), 2))}
    assert plan(slot, beyond, ["a"], emptied, "topic").position == before(Lsn(420))


def test_a_gap_that_nobody_has_is_lost() -> None:
    slot = replace(SLOT, confirmed=Lsn(420))
    with pytest.raises(StreamError) as lost:
        plan(slot, acks(a=400, b=430), ["a", "b"], log(Position(Lsn(450), 0), beginning=35), "topic")
    assert lost.value.code == "GAP_LOST"
    assert "a" in lost.value.message.split()


def test_a_gap_that_the_log_covers_is_none() -> None:
    slot = replace(SLOT, confirmed=Lsn(420))
    assert plan(slot, acks(a=400), ["a"], log(), "topic").mode is EpochMode.CONTINUE


def test_an_offset_of_another_topic_proves_nothing() -> None:
    trimmed = log(Position(Lsn(450), 0), beginning=15)
    assert plan(SLOT, acks(a=400), ["a"], trimmed, "topic").mode is EpochMode.CONTINUE
    assert plan(SLOT, acks(a=400), ["a"], trimmed, "another").mode is EpochMode.REFEED


def test_a_best_effort_sink_does_not_decide() -> None:
    trimmed = log(Position(Lsn(390), 0), beginning=19)
    assert plan(SLOT, acks(a=400, slow=100), ["a"], trimmed, "topic").mode is EpochMode.CONTINUE


def test_a_server_that_starts_behind_a_cut_tail_feeds_again() -> None:
    """The brokers lost the newest frames after they were acked and confirmed."""
    slot = replace(SLOT, confirmed=Lsn(600))
    assert plan(slot, acks(a=600), ["a"], log(), "topic").mode is EpochMode.REFEED
    for known, required in ((acks(a=400), ["a"]), (acks(b=600), ["a", "b"]), ({}, ["a"]), ({}, [])):
        with pytest.raises(StreamError) as lost:
            plan(slot, known, required, log(), "topic")
        assert lost.value.code == "GAP_LOST"


def test_a_sink_that_joins_does_not_stop_the_stream() -> None:
    trimmed = log(Position(Lsn(450), 0), beginning=35)
    assert plan(SLOT, acks(a=400), ["a", "new"], trimmed, "topic").mode is EpochMode.REFEED
    assert plan(SLOT, {}, ["new"], log(), "topic").mode is EpochMode.CONTINUE


def test_a_server_that_went_back_is_another_history() -> None:
    with pytest.raises(StreamError) as lost:
        plan(replace(SLOT, wal_end=Lsn(539)), acks(a=400), ["a"], log(), "topic")
    assert lost.value.code == "SOURCE_WENT_BACK"


def test_restored_with_acks_rolled_back_and_the_log_trimmed() -> None:
    """A sink has a part of a transaction whose COMMIT the server's WAL does not have, and nothing else tells."""
    part = {"a": replace(acks(a=400)["a"], position=Position(Lsn(530), 3))}
    emptied = RawLog(40, 40, None, None)
    with pytest.raises(StreamError) as lost:
        plan(replace(SLOT, wal_end=Lsn(530)), part, ["a"], emptied, "topic")
    assert lost.value.code == "SOURCE_WENT_BACK"


@pytest.mark.parametrize(("created", "mode", "number"), [(True, EpochMode.CONTINUE, 1), (False, EpochMode.REFEED, NOW)])
def test_an_empty_topic_begins_where_the_slot_does(created: bool, mode: EpochMode, number: int) -> None:
    """Of a slot that was there nobody knows how often it has been read: a lane may remember the numbers."""
    decided = plan(replace(SLOT, created=created), {}, ["a"], EMPTY, "topic")
    assert (decided.mode, decided.number, decided.previous) == (mode, number, None)
    assert (decided.position, decided.safe_lsn, decided.skip_to) == (before(Lsn(300)), 300, BEGINNING)


def test_the_number_is_above_what_any_sink_has_seen() -> None:
    newer = {sink: replace(each, epoch=9) for sink, each in acks(a=400).items()}
    assert plan(SLOT, newer, ["a"], log(), "topic").number == 10


LINEAGE = Lineage(GENERATION, 6, "topic", Lsn(300), ("a",), ("a",))


def test_an_empty_topic_goes_on_with_what_the_lineage_says() -> None:
    """Retention or an operator emptied it; the slot has moved since its birth."""
    emptied = RawLog(41, 41, None, None)
    assert generation_of(SOURCE, emptied, LINEAGE, Lsn(5)) == GENERATION
    decided = plan(replace(SLOT, confirmed=Lsn(400)), acks(a=400), ["a"], emptied, "topic", LINEAGE)
    assert (decided.mode, decided.number) == (EpochMode.REFEED, 42)
    assert plan(SLOT, acks(a=400), ["a"], EMPTY, "topic", LINEAGE).number == 7


def test_an_empty_topic_behind_an_ack_is_a_gap() -> None:
    with pytest.raises(StreamError) as lost:
        plan(replace(SLOT, confirmed=Lsn(420)), acks(a=400), ["a"], RawLog(41, 41, None, None), "topic", LINEAGE)
    assert lost.value.code == "GAP_LOST"


def test_a_slot_that_moved_before_any_ack_was_moved_by_somebody_else() -> None:
    moved = replace(SLOT, confirmed=Lsn(301))
    with pytest.raises(StreamError) as lost:
        plan(moved, {}, ["a"], EMPTY, "topic", LINEAGE)
    assert lost.value.code == "GAP_LOST"
    for allowed in (
        plan(SLOT, {}, ["a"], EMPTY, "topic", LINEAGE),
        plan(moved, acks(a=301), ["a"], EMPTY, "topic", LINEAGE),
        plan(moved, {}, ["new"], EMPTY, "topic", LINEAGE),
        plan(moved, {}, ["a"], EMPTY, "topic", None),
        plan(moved, {}, ["a"], EMPTY, "topic", replace(LINEAGE, unacked=())),
    ):
        assert allowed.mode is EpochMode.REFEED


def test_the_first_frame_of_a_trimmed_log_proves_nothing_unless_it_is_of_the_newest_epoch() -> None:
    trimmed = log(Position(Lsn(200), 0), beginning=21)
    assert uncovered(trimmed, "topic", acks(a=400), ["a"], Lsn(300)) == []
    assert uncovered(replace(trimmed, beginning=22), "topic", acks(a=400), ["a"], Lsn(300)) == ["a"]
    assert trimmed.first is not None
    newest = replace(trimmed, beginning=22, first=replace(trimmed.first, epoch=TAIL.number))
    assert uncovered(newest, "topic", acks(a=400), ["a"], Lsn(300)) == []


def test_a_topic_that_retention_emptied_behind_an_ack_lacks_nothing() -> None:
    known = acks(a=400)
    ends = known["a"].offset + 1
    assert uncovered(RawLog(ends, ends, None, None), "topic", known, ["a"], Lsn(300)) == []
    assert uncovered(RawLog(ends + 1, ends + 1, None, None), "topic", known, ["a"], Lsn(300)) == ["a"]


def test_an_ack_of_an_epoch_that_had_ended_there_is_not_believed() -> None:
    behind = {"a": replace(acks(a=400)["a"], epoch=3, offset=TAIL.epoch_offset)}
    assert uncovered(log(beginning=5), "topic", behind, ["a"], Lsn(300)) == ["a"]


def test_the_generation_is_the_topics_own() -> None:
    assert generation_of(SOURCE, log(), None, Lsn(5)) == GENERATION
    assert generation_of(SOURCE, EMPTY, None, Lsn(5)) == generation_of(SOURCE, EMPTY, None, Lsn(5))
    assert generation_of(SOURCE, EMPTY, None, Lsn(5)) != generation_of(SOURCE, EMPTY, None, Lsn(6))


@pytest.mark.parametrize("other", [{"system_identifier": 8}, {"slot": "x"}, {"database": "x"}])
def test_another_generation_is_refused(other: dict[str, object]) -> None:
    with pytest.raises(StreamError) as lost:
        generation_of(replace(SOURCE, **other), log(), None, Lsn(5))
    assert lost.value.code == "GENERATION_CHANGED"


def test_the_start_names_the_lowest_ack_that_the_log_proves() -> None:
    assert start_lsn(acks(a=400, b=500), ["a", "b"], log()) == 400
    assert start_lsn(acks(a=999), ["a"], log()) == TAIL.position.commit_lsn
    assert start_lsn(acks(a=400), ["a", "b"], log()) == 0
    assert start_lsn(acks(a=400), ["a"], EMPTY) == 0
