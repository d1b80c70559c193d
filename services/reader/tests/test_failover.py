"""Which server the pipeline may go on with, case by case: a step only where nothing can be beyond the fork."""

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tidegate.contracts.ack import Ack
from tidegate.contracts.branch import Branch
from tidegate.contracts.epoch import StreamOptions
from tidegate.contracts.frame import FrameHeader, FrameKind
from tidegate.contracts.generation import Generation
from tidegate.contracts.lineage import Lineage
from tidegate.errors import StreamError, TransientError
from tidegate.lsn import Lsn
from tidegate.position import Position, before
from tidegate.preflight.slot import SlotState
from tidegate_reader.failover import Promoted, branch_of, refuse_unpromoted, stand_of
from tidegate_reader.history import Told
from tidegate_reader.raw_log import RawLog
from tidegate_reader.raw_watch import RawWatch
from tidegate_reader.tail import Tail, find_tail, valid_tails
from tidegate_reader.timelines import History, parse_history

FORK, SECOND_FORK = Lsn(600), Lsn(900)
GENERATION = Generation(7, 1, "shop", "slot", b"n" * 16)
SLOT = SlotState("slot", "pgoutput", "shop", None, Lsn(400), Lsn(300), None, False, None, failover=True, synced=True)
PROMOTED = Promoted(2, History(((1, FORK),)), False, 170_006, SLOT)
TWICE = replace(PROMOTED, timeline=3, history=History(((1, FORK), (2, SECOND_FORK))))
OLD = Promoted(1, None, False, 170_006, replace(SLOT, synced=False))
TAIL = Tail(GENERATION, 4, b"e" * 16, 10, 30, 40, Position(Lsn(500), 2), Lsn(540))
OPTIONS = StreamOptions(("p",), 4, messages=True)
EMPTY = RawLog(41, 41, None, None)
STEPPED = Branch(2, FORK, 1, FORK, TAIL.epoch_offset)


def log(reached: int = 540, branch: Branch | None = None, options: StreamOptions | None = OPTIONS) -> RawLog:
    told = Told(Lsn(500), Lsn(540), (7, 70), options, branch=branch, reached=Lsn(reached))
    beginning = 0 if options else TAIL.epoch_offset + 1
    return RawLog(beginning, 41, None, TAIL, told)


def lineage(branch: Branch | None, epoch: int = TAIL.number) -> Lineage:
    return Lineage(GENERATION, epoch, "topic", Lsn(300), ("a",), (), branch=branch)


def ack(safe_lsn: int, position: Position | None = None) -> dict[str, Ack]:
    place = before(Lsn(safe_lsn)) if position is None else position
    return {"a": Ack("a", GENERATION.id, 4, "topic", 30, place, Lsn(safe_lsn), 0)}


def judge(
    server: Promoted, known: RawLog, acks: dict[str, Ack] | None = None, said: Lineage | None = None
) -> Branch | str:
    try:
        return branch_of(server, GENERATION, known, said, ack(540) if acks is None else acks)
    except StreamError as error:
        return error.code


def test_a_planned_failover_goes_on_and_says_where() -> None:
    assert judge(PROMOTED, log()) == Branch(2, FORK, 1, FORK, 41)


def test_without_a_failover_nothing_is_asked_of_the_slot() -> None:
    plain = replace(SLOT, failover=False, synced=False)
    assert judge(replace(OLD, version=140_000, slot=plain), log()) == Branch(1, None, 1, None, 41)
    assert judge(replace(PROMOTED, slot=plain), log(9999, STEPPED), ack(9999)) == Branch(2, FORK, 2, None, 41)


@pytest.mark.parametrize("reached", [int(FORK), int(FORK) - 1])
def test_what_lies_at_the_fork_is_in_both_histories(reached: int) -> None:
    assert isinstance(judge(PROMOTED, log(reached), ack(reached)), Branch)


@pytest.mark.parametrize(
    "acks",
    [
        pytest.param(ack(601), id="acked, though only a keepalive said so"),
        pytest.param(ack(540, Position(Lsn(600), 0)), id="in the middle of a transaction that commits at the fork"),
        pytest.param({"b": replace(ack(601)["a"], sink="b")}, id="a sink that is not required"),
    ],
)
def test_an_ack_beyond_the_fork_is_another_history(acks: dict[str, Ack]) -> None:
    assert judge(PROMOTED, log(), acks) == "HISTORY_FORKED"


def test_a_raw_topic_beyond_the_fork_is_another_history_and_the_cure_is_named() -> None:
    with pytest.raises(StreamError) as raised:
        branch_of(PROMOTED, GENERATION, log(601), None, {})
    assert raised.value.code == "HISTORY_FORKED"
    assert "the raw topic reaches to 0/259" in raised.value.message
    assert "synchronized_standby_slots" in raised.value.remedy


@pytest.mark.parametrize(
    ("server", "code"),
    [
        (replace(PROMOTED, slot=None), "SLOT_MISSING"),
        (replace(PROMOTED, slot=replace(SLOT, synced=False)), "FAILOVER_UNPROVEN"),
        (replace(PROMOTED, slot=replace(SLOT, failover=False)), "FAILOVER_UNPROVEN"),
        (replace(PROMOTED, slot=replace(SLOT, temporary=True)), "FAILOVER_UNPROVEN"),
        (replace(PROMOTED, slot=replace(SLOT, invalidated="wal_removed")), "FAILOVER_UNPROVEN"),
        (replace(PROMOTED, version=169_999), "FAILOVER_UNPROVEN"),
        (replace(PROMOTED, is_in_recovery=True), "FAILOVER_UNPROVEN"),
        (replace(PROMOTED, history=None), "HISTORY_FORKED"),
        (replace(PROMOTED, timeline=4, history=History(((3, FORK),))), "HISTORY_FORKED"),
    ],
)
def test_what_cannot_be_proven_is_refused(server: Promoted, code: str) -> None:
    """A restored backup of a primary has a slot, too: nobody kept that one in step."""
    assert judge(server, log()) == code


def test_a_standby_that_will_be_promoted_is_waited_for() -> None:
    with pytest.raises(TransientError) as raised:
        refuse_unpromoted(replace(PROMOTED, is_in_recovery=True))
    assert raised.value.code == "SOURCE_NOT_PROMOTED"
    refuse_unpromoted(replace(PROMOTED, is_in_recovery=True, slot=replace(SLOT, synced=False)))
    refuse_unpromoted(PROMOTED)


@pytest.mark.parametrize("known", [log(branch=STEPPED), log(options=None), log()])
def test_an_old_primary_is_refused_by_whoever_remembers(known: RawLog) -> None:
    said = None if known.told and known.told.branch else lineage(STEPPED.settled())
    assert judge(OLD, known, said=said) == "SOURCE_OLD_PRIMARY"


def test_redis_emptied_the_epoch_frame_is_the_witness() -> None:
    assert judge(PROMOTED, log(9999, STEPPED), {}) == Branch(2, FORK, 2, None, 41)


def test_ended_between_lineage_and_epoch_frame_the_step_is_judged_again() -> None:
    """The raw topic's newest epoch frame is the one before."""
    said = lineage(replace(STEPPED, offset=41), epoch=5)
    assert judge(PROMOTED, log(), said=said) == Branch(2, FORK, 1, FORK, 41)
    assert judge(PROMOTED, log(601), said=said) == "HISTORY_FORKED"
    assert judge(OLD, log(), said=said) == "SOURCE_OLD_PRIMARY"


def test_an_epoch_frame_that_landed_elsewhere_has_made_no_step() -> None:
    """Somebody on the old primary wrote in between: what that was is looked at."""
    elsewhere = replace(STEPPED, offset=TAIL.epoch_offset - 1)
    assert judge(PROMOTED, log(601, elsewhere)) == "HISTORY_FORKED"
    assert judge(PROMOTED, log(600, elsewhere)) == Branch(2, FORK, 1, FORK, 41)
    assert judge(OLD, log(600, elsewhere)) == "SOURCE_OLD_PRIMARY"
    with_step_before = replace(elsewhere, left=2, fork=None)
    assert judge(PROMOTED, log(9999, with_step_before)) == Branch(2, FORK, 2, None, 41)


def test_where_retention_took_the_epoch_frame_the_lineage_tells() -> None:
    trimmed = log(700, options=None)
    assert judge(PROMOTED, trimmed, said=lineage(STEPPED.settled())) == Branch(2, FORK, 2, None, 41)
    assert judge(PROMOTED, trimmed) == "HISTORY_FORKED"


def test_an_empty_topic_is_no_reason_to_step() -> None:
    assert judge(PROMOTED, EMPTY, said=lineage(STEPPED.settled())) == Branch(2, FORK, 2, None, 41)
    assert judge(PROMOTED, EMPTY, {}, said=lineage(None)) == "FAILOVER_UNPROVEN"
    assert judge(PROMOTED, EMPTY, said=lineage(STEPPED)) == "FAILOVER_UNPROVEN"


def test_promoted_twice_the_first_unseen_the_first_fork_counts() -> None:
    assert judge(TWICE, log(600)) == Branch(3, SECOND_FORK, 1, FORK, 41)
    assert judge(TWICE, log(601)) == "HISTORY_FORKED"


def test_promoted_twice_one_after_the_other() -> None:
    assert judge(TWICE, log(900, STEPPED), ack(900)) == Branch(3, SECOND_FORK, 2, SECOND_FORK, 41)
    assert judge(TWICE, log(901, STEPPED), ack(900)) == "HISTORY_FORKED"
    assert judge(PROMOTED, log(branch=Branch(3, SECOND_FORK, 3, None, 10))) == "SOURCE_OLD_PRIMARY"


def test_two_standbys_that_took_the_same_number_are_told_apart() -> None:
    other = Lsn(590)
    assert judge(replace(PROMOTED, history=History(((1, other),))), log(branch=STEPPED)) == "HISTORY_FORKED"
    descendant = replace(TWICE, history=History(((1, other), (2, SECOND_FORK))))
    assert judge(descendant, log(branch=STEPPED)) == "HISTORY_FORKED"


def test_what_an_older_reader_wrote_is_of_the_generations_own_timeline() -> None:
    assert stand_of(GENERATION, log(), lineage(None)).base == GENERATION.timeline
    assert stand_of(replace(GENERATION, timeline=5), log(), None).highest == 5


@pytest.mark.parametrize(("timeline", "beginning", "ends"), [(2, 11, True), (2, 10, False), (1, 11, False)])
def test_the_witness_is_written_anew_when_retention_takes_it(timeline: int, beginning: int, ends: bool) -> None:
    stamp = SimpleNamespace(offset=10, generation=GENERATION)
    opened: Any = SimpleNamespace(
        stamp=stamp, lineage=lineage(replace(STEPPED, timeline=timeline)), beginning=0, acks={}
    )
    anything: Any = SimpleNamespace()
    watch = RawWatch(anything, opened, anything, anything, anything)
    with pytest.raises(TransientError) if ends else nullcontext():
        watch._check_witness(replace(log(), beginning=beginning))


LSNS = st.integers(1, 2000).map(Lsn)


@given(LSNS, LSNS, LSNS, LSNS, st.sampled_from([1, 2]))
def test_a_step_is_never_made_with_something_beyond_the_fork(
    reached: Lsn, acked: Lsn, first: Lsn, second: Lsn, base: int
) -> None:
    assume(first <= second)
    server = replace(TWICE, history=History(((1, first), (2, second))))
    branch = Branch(base, first if base == 2 else None, base, None, TAIL.epoch_offset)
    fork = second if base == 2 else first
    found = judge(server, log(reached, branch), ack(acked))
    assert isinstance(found, Branch) == (max(reached, acked) <= fork)
    assert found == "HISTORY_FORKED" or found == Branch(3, second, base, fork, 41)


def test_a_history_file_is_read_with_its_comments() -> None:
    content = "1\t0/3000060\tno recovery target specified\n\n# by hand\n2\t1/A0\tbefore 2026-01-01 00:00:00+00\n"
    history = parse_history(content)
    assert history.ancestors == ((1, 0x3000060), (2, 0x1_000000A0))
    assert (history.begins, history.left(1), history.left(3)) == (0x1_000000A0, 0x3000060, None)
    assert (history.began(1), history.began(2), history.began(9)) == (None, 0x3000060, None)


@pytest.mark.parametrize("content", ["1", "x\t0/1\ty", "1\t0-1\ty"])
def test_a_history_file_that_is_none_is_refused(content: str) -> None:
    with pytest.raises(StreamError) as raised:
        parse_history(content)
    assert raised.value.code == "TIMELINE_HISTORY_MALFORMED"


def test_what_came_in_before_an_epoch_frame_counts_though_the_tail_does_not_say_it() -> None:
    """The frame repeats the position that its writer had read; what is void behind it counts for nothing."""

    def frame(epoch: int, seq: int, at: int, kind: FrameKind = FrameKind.WAL, epoch_offset: int = 0) -> FrameHeader:
        place = Position(Lsn(at), 0)
        nonce = epoch.to_bytes(16, "big")
        return FrameHeader(kind, GENERATION, epoch, nonce, epoch_offset, seq, place, place, Lsn(at + 40), 0)

    zombie, late = frame(1, 2, 700), frame(1, 3, 800)
    records = list(enumerate((frame(1, 0, 500, FrameKind.EPOCH), frame(1, 1, 540), zombie)))
    records += [(3, frame(2, 0, 540, FrameKind.EPOCH)), (4, late)]
    tail = find_tail(records, window_start=0)
    assert tail is not None
    assert (tail.number, tail.reach) == (2, 580)
    assert max(each.reach for each in valid_tails(records, window_start=0) if each is not None) == 740
