"""What is decided about a loss, case by case: who may repair it, how often, and what the log then says."""

import asyncio
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.starts import GENERATION, SLOT, TAIL, acks, log

from tidegate.clock import unix_microseconds
from tidegate.config.values import OnLost
from tidegate.contracts.epoch import EpochMode
from tidegate.contracts.gap import Gap, GapReason
from tidegate.contracts.lineage import Lineage
from tidegate.contracts.snapshot_status import SnapshotState
from tidegate.errors import ExitCode, StreamError
from tidegate.lsn import Lsn
from tidegate.position import BEGINNING, Position, before
from tidegate_reader import gap, repair, resume
from tidegate_reader.history import Told
from tidegate_reader.raw_log import RawLog
from tidegate_reader.repair import MOST_A_DAY, Repair, eased
from tidegate_reader.resume import GAP_LOST, behind_the_gap, uncovered
from tidegate_reader.snapshot.levelling import note, owed
from tidegate_reader.snapshot.records import SnapshotRecord
from tidegate_reader.snapshot.store import Kept

NOW = 1_795_000_000_000
LINEAGE = Lineage(GENERATION, 6, "topic", Lsn(300), ("a",), ("a",))
plan = partial(resume.plan, now=NOW)
ID = "ab" * 16
LOSS = StreamError("lost", code="SLOT_MISSING")
WAL_END = Lsn(10_000)
BEYOND = replace(SLOT, confirmed=Lsn(600))


def config(on_lost: OnLost = OnLost.RESNAPSHOT, *, create: bool = True) -> Any:
    slot = SimpleNamespace(name="slot", on_lost=on_lost, create=create)
    return SimpleNamespace(pipeline="shop", source=SimpleNamespace(slot=slot), kafka=None, raw_topic=None, sinks=())


def kept(*records: SnapshotRecord) -> Kept:
    return Kept({each.id: each for each in records})


def made(given: Any, known: Kept | None = None, raw: RawLog | None = None, **more: Any) -> Repair:
    return Repair(given, GENERATION, known or kept(), raw or log(), **({"is_standby": False} | more))


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[SnapshotRecord]:
    """What became durable, in order."""
    records: list[SnapshotRecord] = []

    async def write(_producer: Any, _config: Any, _generation: Any, record: SnapshotRecord) -> None:
        records.append(record)

    async def nothing(*_: Any) -> None:
        return

    async def known(*_: Any) -> dict[str, Any]:
        return acks(a=400)

    monkeypatch.setattr(repair, "write_record", write)
    monkeypatch.setattr(repair, "open_producer", nothing)
    monkeypatch.setattr(repair, "close_producer", nothing)
    monkeypatch.setattr(gap, "acks_of_all", known)
    return records


def noted(subject: Repair, wal_end: Lsn = WAL_END) -> None:
    asyncio.run(subject.note_loss(GapReason.SLOT_MISSING, LOSS, wal_end))


def test_a_loss_is_noted_before_anything_is_done_about_it(written: list[SnapshotRecord]) -> None:
    subject = made(config())
    assert not subject.is_owed
    noted(subject)
    [record] = written
    assert (record, record.reason, record.is_announced) == (subject.note, "slot_missing", False)


@pytest.mark.parametrize(
    ("subject", "code"),
    [
        (made(config(OnLost.FAIL)), "SLOT_MISSING"),
        (Repair(config(), None, kept(), log(), is_standby=False), "SLOT_MISSING"),
        (made(config(), is_standby=True), "RESNAPSHOT_STANDBY"),
    ],
    ids=["fail", "no past", "standby"],
)
def test_what_is_left_to_a_person_is_not_noted(subject: Repair, code: str, written: list[SnapshotRecord]) -> None:
    with pytest.raises(StreamError) as lost:
        noted(subject)
    assert (lost.value.code, lost.value.exit_code, written) == (code, ExitCode.LOST, [])


def test_on_a_server_that_has_less_nothing_is_made(written: list[SnapshotRecord]) -> None:
    with pytest.raises(StreamError) as lost:
        noted(made(config()), wal_end=Lsn(TAIL.safe_lsn - 1))
    assert (lost.value.code, written) == ("SOURCE_WENT_BACK", [])


def test_a_note_that_was_not_announced_is_gone_on_with(written: list[SnapshotRecord]) -> None:
    before_it = note("slot_missing", ID)
    subject = made(config(), kept(before_it))
    assert subject.is_owed
    noted(subject)
    assert (subject.note, written) == (before_it, [])


def test_a_note_is_announced_by_its_record_or_by_the_log() -> None:
    waiting = note("slot_missing", ID)
    told = Told(Lsn(500), Lsn(540), None, None, gap=Gap(Lsn(540), 10, ID, GapReason.SLOT_MISSING))
    assert not made(config(), kept(replace(waiting, is_announced=True))).is_owed
    assert not made(config(), kept(waiting), replace(log(), told=told)).is_owed
    assert made(config(), kept(waiting), replace(log(beginning=11), told=told)).is_owed, "that frame is gone"


def test_what_does_not_help_is_not_tried_for_ever(written: list[SnapshotRecord]) -> None:
    now = unix_microseconds()
    lately = [
        replace(note("slot_missing", f"{number:032x}"), is_announced=True, requested=now - 3_600_000_000)
        for number in range(MOST_A_DAY)
    ]
    with pytest.raises(StreamError) as lost:
        noted(made(config(), kept(*lately)))
    assert (lost.value.code, written) == ("RESNAPSHOT_TOO_OFTEN", [])
    long_ago = replace(lately[0], requested=now - 90_000_000_000)
    noted(made(config(), kept(long_ago, *lately[1:])))
    assert len(written) > 0


def test_a_new_note_takes_the_place_of_what_was_being_read(written: list[SnapshotRecord]) -> None:
    half = replace(note("slot_missing", ID), is_announced=True, state=SnapshotState.RUNNING)
    done = replace(half, id="cd" * 16, state=SnapshotState.DONE)
    noted(made(config(), kept(half, done)))
    assert [(each.id == ID, each.state) for each in written] == [
        (False, SnapshotState.WAITING),
        (True, SnapshotState.CANCELLED),
    ]


def test_a_gap_that_is_announced_skips_nothing_of_what_the_server_sends() -> None:
    decided = behind_the_gap(BEYOND, acks(a=400), log(), LINEAGE, snapshot=ID, reason=GapReason.SLOT_MISSING, now=NOW)
    assert (decided.mode, decided.number, decided.skip_to) == (EpochMode.RESNAPSHOT, 5, BEGINNING)
    assert (decided.position, decided.safe_lsn, decided.kept_from) == (before(Lsn(600)), 600, 600)
    assert decided.gap == Gap(Lsn(600), 41, ID, GapReason.SLOT_MISSING)


def test_a_gap_in_an_emptied_topic_goes_on_with_the_numbers_of_the_lineage() -> None:
    emptied = RawLog(41, 41, None, None)
    decided = behind_the_gap(BEYOND, {}, emptied, LINEAGE, snapshot=ID, reason=GapReason.SLOT_MISSING, now=NOW)
    assert (decided.number, decided.previous) == (42, None)


def announced(beginning: int = 0) -> RawLog:
    """At offset 20 a gap up to 500 was announced; the log has gone on since."""
    told = Told(Lsn(500), Lsn(540), None, None, gap=Gap(Lsn(500), 20, ID, GapReason.SLOT_MOVED))
    return replace(log(Position(Lsn(490), 0), beginning), told=told)


def test_a_lane_that_has_still_to_pass_a_gap_is_not_lost_again() -> None:
    """Its place was trimmed; it comes in where the gap is announced."""
    slot = replace(SLOT, confirmed=Lsn(500))
    behind = {"a": replace(acks(a=100)["a"], offset=3)}
    decided = plan(slot, behind, ["a"], announced(15), "topic")
    assert (decided.mode, decided.gap and decided.gap.offset) == (EpochMode.CONTINUE, 20)
    with pytest.raises(StreamError) as lost:
        plan(slot, behind, ["a"], announced(21), "topic")
    assert lost.value.code == "GAP_LOST"


def test_a_gap_says_nothing_of_what_came_behind_it() -> None:
    beyond = {"a": replace(acks(a=520)["a"], offset=3)}
    assert uncovered(announced(15), "topic", beyond, ["a"], Lsn(300)) == ["a"]


@given(
    confirmed=st.integers(1, 700),
    safe=st.integers(1, 700),
    beginning=st.integers(0, 41),
    gap_at=st.none() | st.tuples(st.integers(1, 700), st.integers(0, 41)),
)
def test_no_plan_goes_on_over_a_gap_that_is_not_announced(
    confirmed: int, safe: int, beginning: int, gap_at: tuple[int, int] | None
) -> None:
    """A sink whose place is not in the log goes on from its place, from an announced gap, or not at all."""
    gap_told = None if gap_at is None else Gap(Lsn(gap_at[0]), gap_at[1], ID, GapReason.SLOT_MOVED)
    told = Told(Lsn(500), Lsn(540), None, None, gap=gap_told)
    raw = replace(log(Position(Lsn(450), 0), beginning), told=told)
    known = {"a": replace(acks(a=safe)["a"], topic_id="another")}
    slot = replace(SLOT, confirmed=Lsn(confirmed))
    try:
        decided = plan(slot, known, ["a"], raw, "topic")
    except StreamError as error:
        decided, lost = None, error.code
    is_in_the_log = beginning == 0 and before(Lsn(safe)) >= Position(Lsn(450), 0)
    passes_a_gap = gap_told is not None and beginning <= gap_told.offset and safe < gap_told.lsn
    if decided is None:
        assert lost == GAP_LOST
        assert safe < confirmed
    elif decided.mode is EpochMode.REFEED:
        assert safe >= confirmed
    else:
        assert is_in_the_log or passes_a_gap


def test_a_loss_under_a_running_reader_is_for_its_next_start() -> None:
    for code in ("SLOT_MISSING", "SLOT_LOST"):
        failure = StreamError("gone", code=code)
        assert eased(config(), failure).exit_code is ExitCode.RETRY
        assert eased(config(OnLost.FAIL), failure) is failure
        assert eased(config(create=False), failure) is failure
    other = StreamError("another history", code="SOURCE_WENT_BACK")
    assert eased(config(), other) is other


def test_the_log_tells_which_snapshot_is_owed_if_nobody_else_does() -> None:
    told = Gap(Lsn(500), 20, ID, GapReason.SLOT_MOVED)
    record = cast(SnapshotRecord, owed(told, {}))
    assert (record.id, record.reason) == (ID, "slot_moved")
    assert owed(told, {ID: record}) is None
    assert owed(None, {}) is None
