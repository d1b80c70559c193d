"""The set that the gate counts on changes under a running reader: whatever fails in between, confirmed passes nobody
whom a lineage in Redis may name, and nobody is let go unrecorded."""

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.starts import GENERATION, log

from tidegate.contracts.ack import Ack
from tidegate.contracts.lineage import Lineage
from tidegate.errors import ConfigError, TransientError
from tidegate.lsn import Lsn
from tidegate.position import BEGINNING, Position
from tidegate_reader import required_sinks
from tidegate_reader.gate import Gate
from tidegate_reader.keeper import Keeper
from tidegate_reader.metrics import ReaderMetrics
from tidegate_reader.progress import Progress
from tidegate_reader.required_sinks import RequiredSinks

START = Lsn(100)


class Reader:
    """With a Redis that may not answer, or take what it does not say that it has taken."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *required: str) -> None:
        progress = Progress("shop", 1, started=0)
        anything: Any = SimpleNamespace(confirmed_grew=lambda: None)
        self.keeper = Keeper(
            Gate(required, confirmed=START, durable=Lsn(1000)), anything, progress, ReaderMetrics(progress, required)
        )
        self.lineage = Lineage(GENERATION, 1, "topic", START, required, required)
        self.may_be_said = [self.lineage]
        """Any of these may stand in Redis."""
        self.records: list[str] = []
        self.records_fail = self.says_fail = self.says_are_lost = False
        self.required = RequiredSinks(self.keeper, self.lineage, self._say)
        # So that a record can fail at each step; real ones: tests/integration/test_sinks_that_come_and_go.py.
        monkeypatch.setattr(required_sinks, "tombstone", self._tombstone)

    def ack(self, **acks: int) -> None:
        self.keeper.acked({sink: Ack(sink, "g", 1, "t", 0, BEGINNING, Lsn(lsn), 0) for sink, lsn in acks.items()})

    def change(self, *required: str) -> bool:
        config: Any = SimpleNamespace(required_sinks=list(required))
        try:
            return asyncio.run(self.required.change(config))
        except TransientError:
            return False

    async def _tombstone(self, config: Any, before: Lineage, acks: Mapping[str, Ack]) -> None:
        for sink in before.required:
            if sink not in config.required_sinks:
                if self.records_fail:
                    raise TransientError("away", code="AUDIT_UNWRITTEN", remedy="Wait.")
                self.records.append(sink)

    async def _say(self, lineage: Lineage) -> bool:
        if self.says_fail:
            return False
        self.may_be_said.append(lineage)
        if not self.says_are_lost:
            self.may_be_said = [lineage]
        return not self.says_are_lost


def test_one_that_comes_lets_confirmed_stand_and_is_owed_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(monkeypatch, "a")
    reader.ack(a=300)
    assert reader.change("a", "new")
    reader.ack(a=500)

    said = reader.may_be_said[-1]
    assert (said.required, said.unacked, said.kept_from) == (("a", "new"), ("new",), 300)
    assert (reader.keeper.confirmed, reader.records) == (300, [])


def test_one_that_goes_is_recorded_and_then_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(monkeypatch, "a", "slow")
    reader.ack(a=300, slow=150)
    assert reader.change("a")

    assert (reader.records, reader.may_be_said[-1].required, reader.keeper.confirmed) == (["slow"], ("a",), 300)


def test_without_a_record_the_old_set_stays_and_it_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(monkeypatch, "a", "slow")
    reader.ack(a=300, slow=150)
    reader.records_fail = True
    assert not reader.change("a")
    assert (reader.keeper.confirmed, reader.may_be_said) == (150, [reader.lineage])

    reader.records_fail = False
    assert reader.change("a")
    assert reader.keeper.confirmed == 300


def test_a_record_is_not_written_again_for_a_lineage_that_did_not_get_through(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(monkeypatch, "a", "slow")
    reader.ack(a=300, slow=150)
    reader.says_fail = True
    assert not reader.change("a")
    assert not reader.change("a")

    assert (reader.records, reader.keeper.confirmed) == (["slow"], 150)


def test_who_comes_back_before_it_was_let_go_is_named_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lineage without it may be in Redis by then."""
    reader = Reader(monkeypatch, "a", "b")
    reader.ack(a=300, b=150)
    reader.says_are_lost = True
    assert not reader.change("a")
    reader.says_are_lost = False
    assert reader.change("a", "b")

    assert reader.may_be_said[-1].required == ("a", "b")
    assert reader.keeper.confirmed == 150


def test_one_that_was_owed_more_is_owed_it_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """`late` has acked nothing since the epoch began; another one that comes changes nothing about what it is owed."""
    reader = Reader(monkeypatch, "a", "late")
    reader.ack(a=300)
    assert reader.change("a", "late", "new")

    assert reader.may_be_said[-1].kept_from == START


@pytest.mark.parametrize(
    ("acked", "beginning", "is_refused"),
    [(150, 0, False), (150, 30, True), (300, 30, False), (None, 30, False)],
    ids=["the raw topic has it", "nobody has it", "it lacks nothing", "it is new"],
)
def test_one_that_comes_back_behind_what_anybody_has_is_refused_for_itself_alone(
    acked: int | None, beginning: int, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read(*_: object) -> Any:
        return log(Position(Lsn(250), 0) if beginning else BEGINNING, beginning)

    monkeypatch.setattr(required_sinks, "read_raw_log", read)  # a log as retention leaves it
    reader = Reader(monkeypatch, "a")
    reader.ack(a=300)
    if acked is not None:
        reader.ack(back=acked)
    config: Any = SimpleNamespace(required_sinks=["a", "back"], kafka=None, raw_topic=SimpleNamespace(name="raw"))
    code = ""
    try:
        asyncio.run(reader.required.check(config, {"back"}))
    except ConfigError as error:
        code = error.code

    assert code == ("SINK_LEFT_BEHIND" if is_refused else "")
    assert reader.keeper.confirmed == 300


names = st.sampled_from(["a", "b", "c"])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("ack"), names, st.integers(0, 1000)),
        st.tuples(st.just("change"), st.lists(names, unique=True, min_size=1), st.integers(0, 3)),
    ),
    max_size=30,
)


@given(st.lists(names, unique=True, min_size=1), steps)
def test_confirmed_passes_nobody_whom_redis_may_name(first: list[str], happens: list[tuple[str, Any, int]]) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        reader = Reader(monkeypatch, *first)
        acked: dict[str, int] = {}
        for what, whom, how in happens:
            before = reader.keeper.confirmed
            recorded_before = list(reader.records)
            named = {sink for lineage in reader.may_be_said for sink in lineage.required}
            if what == "ack":
                acked[whom] = max(acked.get(whom, 0), how)
                reader.ack(**{whom: how})
            else:
                reader.records_fail, reader.says_fail, reader.says_are_lost = how == 1, how == 2, how == 3
                is_done = reader.change(*whom)
                gone = named - set(whom)
                assert not is_done or gone <= {*recorded_before, *reader.records}
            counted = {sink for lineage in reader.may_be_said for sink in lineage.required}
            if reader.keeper.confirmed > before:
                assert all(acked.get(sink, -1) >= reader.keeper.confirmed for sink in counted)
            for lineage in reader.may_be_said:
                owed = [sink for sink in lineage.unacked if sink not in acked]
                assert not owed or reader.keeper.confirmed <= max(lineage.kept_from, START)
