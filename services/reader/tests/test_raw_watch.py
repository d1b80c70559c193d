"""Retention has taken all but what is behind the sink's ack. Then Redis forgets that ack."""

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from kit.starts import GENERATION, acks, log

from tidegate.contracts.ack import Ack
from tidegate.contracts.epoch import EpochMode
from tidegate.errors import TransientError
from tidegate.lsn import Lsn
from tidegate.position import Position
from tidegate_reader import raw_watch
from tidegate_reader.gate import Gate
from tidegate_reader.keeper import Keeper
from tidegate_reader.progress import Progress
from tidegate_reader.raw_watch import RawWatch

KNOWN: Mapping[str, Ack] = acks(a=400)
LOG = log(Position(Lsn(450), 0), beginning=KNOWN["a"].offset + 1)
LONG = 15.5


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


class Watched:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        anything: Any = SimpleNamespace(confirmed_grew=lambda: None)
        progress, self.clock = Progress("shop", 1, started=0), Clock()
        gate = Gate(["a"], confirmed=Lsn(300), durable=Lsn(300))
        self.keeper = Keeper(gate, anything, progress, anything)
        self.keeper.acked(KNOWN)
        self.opened: Any = SimpleNamespace(
            stamp=SimpleNamespace(offset=10, generation=GENERATION),
            lineage=SimpleNamespace(topic_id="topic", kept_from=Lsn(300), branch=None, required=("a",)),
            plan=SimpleNamespace(mode=EpochMode.CONTINUE, position=Position(Lsn(299), 0)),
            beginning=0,
            acks=KNOWN,
        )
        config: Any = SimpleNamespace(kafka=None, raw_topic=SimpleNamespace(name="raw"), required_sinks=["a"])
        self._watch = RawWatch(config, self.opened, self.keeper, self._beginning, progress)
        monkeypatch.setattr(raw_watch, "time", self.clock)
        monkeypatch.setattr(raw_watch, "read_raw_log", self._read)

    def look(self, later: float = 0.0) -> None:
        self.clock.now += later
        asyncio.run(self._watch.look())

    async def _beginning(self) -> int:
        return LOG.beginning

    async def _read(self, *_: object) -> Any:
        return LOG


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


def test_a_sink_whose_ack_is_forgotten_is_fed_again(watched: Watched) -> None:
    """Its lane may have lost its cursor too, and would wait for ever (seed 712142)."""
    watched.look()
    watched.keeper.acked({})
    watched.look()
    watched.look(LONG - 1)
    with pytest.raises(TransientError) as raised:
        watched.look(1)
    assert raised.value.code == "RAW_TOPIC_OVERTAKES"


def test_a_lane_has_the_time_to_say_its_ack_again(watched: Watched) -> None:
    watched.look()
    for _ in range(3):
        watched.keeper.acked({})
        watched.look(LONG)
        watched.keeper.acked(KNOWN)
        watched.look(LONG)


def test_one_that_joins_and_that_the_raw_topic_cannot_serve_is_fed_by_the_next_start(watched: Watched) -> None:
    """At once, though nothing has been trimmed since: it would wait for ever, and the gate with it."""
    watched.look()
    watched.opened.lineage.required = ("a", "new")

    with pytest.raises(TransientError) as raised:
        watched.look()
    assert raised.value.code == "RAW_TOPIC_OVERTAKES"


def test_one_that_joins_behind_what_this_epoch_began_with_finds_all_it_is_owed(watched: Watched) -> None:
    """Also in a log whose first frame is of an older epoch, and may be void for all that is known."""
    watched.opened.stamp.offset = LOG.beginning + 5
    watched.look()
    watched.opened.lineage.required = ("a", "new")

    watched.look()
