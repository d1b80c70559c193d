"""Since when the same was asked for: what came by other options before need not come again."""

from dataclasses import replace
from typing import Any

import pytest
from kit.raw_topic import inserted
from kit.starts import GENERATION
from kit.wait import wait

from tidegate.contracts.epoch import StreamOptions
from tidegate.contracts.lineage import Lineage
from tidegate.errors import ExitCode, StreamError
from tidegate.lsn import Lsn
from tidegate.position import Position, before
from tidegate_reader.history import HistoryCheck, Told, options_since

OPTIONS = StreamOptions(("p",), 4, messages=True)
OTHER_OPTIONS = StreamOptions(("p", "q"), 4, messages=True)
TOLD = Told(Lsn(500), Lsn(540), (7, 70), OPTIONS)


def test_what_may_have_been_asked_for_with_other_options_is_not_awaited() -> None:
    """A publication without its tables sends nothing of it."""
    since = replace(TOLD, options_since=Lsn(500))
    assert HistoryCheck(TOLD, Lsn(400), OPTIONS).awaits_last
    check = HistoryCheck(since, Lsn(400), OPTIONS)
    assert not check.awaits_last
    check.passes(Lsn(501))
    with pytest.raises(StreamError):
        check.begins(Lsn(530), 9, 90)


def _said(options: StreamOptions, since: int) -> Lineage:
    return Lineage(GENERATION, 4, "topic", Lsn(300), ("a",), (), options, options_since=Lsn(since))


@pytest.mark.parametrize(
    ("told", "past", "since"),
    [
        (None, None, 0),
        (replace(TOLD, options=None), None, 0),
        (TOLD, _said(OPTIONS, 300), 300),
        (replace(TOLD, options_since=Lsn(200)), None, 200),
        (TOLD, _said(OTHER_OPTIONS, 0), 500),  # of a reader that never began, or of the one before
        (replace(TOLD, options=OTHER_OPTIONS), _said(OPTIONS, 0), 500),
        (None, _said(OTHER_OPTIONS, 0), 440),
    ],
)
def test_options_that_change_count_from_behind_all_that_anybody_has(
    told: Told | None, past: Lineage | None, since: int
) -> None:
    assert options_since(OPTIONS, told, past, [before(Lsn(401)), Position(Lsn(440), 1)]) == since


def test_another_publication_is_no_other_history(fleet: Any) -> None:
    """Nothing of the last transaction is sent again, at no start, and sinks may lag behind it for long."""
    fleet.sql("CREATE TABLE more (id int PRIMARY KEY, note text)")
    fleet.sql("CREATE PUBLICATION other FOR TABLE more")
    reader = fleet.reader()
    fleet.sql("INSERT INTO orders (note) VALUES ('a')")
    wait(lambda: inserted(fleet) == ["a"], 10, "the row is in the raw topic, and nobody has acked it")
    assert fleet.stop(reader) == ExitCode.CLEAN
    fleet.settings["source"]["publication"] = {"manage": False, "names": ["other"]}
    for notes in (["a", "b"], ["a", "b", "c"]):
        assert fleet.stop(fleet.reader()) == ExitCode.CLEAN
        fleet.reader()
        fleet.sql("INSERT INTO orders (note) VALUES ('nobody asks for it')")
        fleet.sql("INSERT INTO more VALUES (%s, %s)", len(notes), notes[-1])
        wait(lambda notes=notes: inserted(fleet) == notes, 20, "the reader goes on")
        assert fleet.stop(fleet.processes[-1]) == ExitCode.CLEAN
