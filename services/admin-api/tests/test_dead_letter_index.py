"""The index says what the topic says, whatever is lost."""

from dataclasses import replace
from pathlib import Path

from kit.letters import make_letter

from tidegate.contracts.resolution import Outcome, Resolution
from tidegate_admin.dead_letters.entries import NEWEST, OLDEST, Filter
from tidegate_admin.dead_letters.index import Index
from tidegate_admin.frames.raw import Record


def records(*values: bytes, start: int = 0) -> list[Record]:
    return [Record(start + at, 0, None, value) for at, value in enumerate(values)]


def purged(*numbers: int) -> bytes:
    return Resolution(Outcome.PURGED, tuple(make_letter(n).id for n in numbers), "me", 1).encode()


def test_found_again_it_is_the_same_one(tmp_path: Path) -> None:
    index = Index(tmp_path / "index")
    index.take(records(make_letter(1).encode(), make_letter(1).encode()))
    [entry] = index.page(Filter(), NEWEST, 10)
    assert (entry.found, entry.offset, index.total()) == (2, 1, 1)


def test_a_resolution_counts_for_what_lies_before_it_only(tmp_path: Path) -> None:
    index = Index(tmp_path / "index")
    index.take(records(make_letter(1).encode(), make_letter(2).encode(), purged(1, 2), make_letter(2).encode()))
    assert [entry.id for entry in index.page(Filter(), NEWEST, 10)] == [make_letter(2).id]
    assert index.counts() == [("events", "VALUE_NOT_UTF8", "public.orders", 1)]


def test_what_another_lane_has_delivered_stays_open_and_what_its_own_has_does_not(tmp_path: Path) -> None:
    index = Index(tmp_path / "index")
    resolved = [
        Resolution(outcome, (make_letter(n).id,), "me", 1, "request", "search").encode()
        for n, outcome in ((1, Outcome.COPIED), (2, Outcome.REPLAYED))
    ]
    index.take(records(make_letter(1).encode(), make_letter(2).encode(), *resolved))
    assert [entry.id for entry in index.page(Filter(), NEWEST, 10)] == [make_letter(1).id]


def test_it_goes_on_where_it_ended(tmp_path: Path) -> None:
    first = Index(tmp_path / "index")
    first.begin_anew("topic")
    first.take(records(make_letter(1).encode()))
    first.close()
    second = Index(tmp_path / "index")
    assert second.next_offset == 1
    assert second.belongs_to("topic", end=1)
    assert not second.belongs_to("another topic", end=1)
    assert not second.belongs_to("topic", end=0)


def test_a_file_that_is_no_index_is_built_anew(tmp_path: Path) -> None:
    path = tmp_path / "index"
    path.write_bytes(b"SQLite format 3\0" + bytes(5000))
    assert Index(path).total() == 0


def test_no_row_and_no_key_stands_in_it(tmp_path: Path) -> None:
    """Nor can others on the machine read it."""
    path = tmp_path / "index"
    index = Index(path)
    index.take(records(make_letter(4711).encode()))
    index.close()
    assert b"secret of row" not in path.read_bytes()
    assert b"4711" not in path.read_bytes()
    assert path.stat().st_mode & 0o077 == 0


def test_bytes_that_are_no_dead_letter_stop_nothing(tmp_path: Path) -> None:
    index = Index(tmp_path / "index")
    index.take(records(b"junk", b'{"by":', b"", make_letter(1).encode()))
    assert (index.total(), index.next_offset) == (1, 4)


def test_a_selection_goes_on_behind_its_last_one_and_ends_where_it_began(tmp_path: Path) -> None:
    """What fails again meanwhile lies behind that, and is not met a second time."""
    index = Index(tmp_path / "index")
    index.take(records(*(make_letter(n).encode() for n in range(5))))
    wanted, end = Filter(lane="events", since=make_letter(1).time), index.next_offset
    first = index.chosen(wanted, OLDEST, end, 2)
    index.take(records(make_letter(1, time=make_letter(9).time).encode(), make_letter(7).encode(), start=5))
    rest = index.chosen(wanted, (first[-1].time, first[-1].offset), end, 10)
    assert [each.id for each in first + rest] == [make_letter(n).id for n in (1, 2, 3, 4)]


def test_a_letter_is_listed_as_it_was_told_whatever_its_text_is(tmp_path: Path) -> None:
    """Lists come out of the index as JSON, which knows quotes, controls and no bytes."""
    index = Index(tmp_path / "index")
    texts = ['"quoted" \\ \\u0000', "a\0b\n\x1f\x7f", "\u2028 \U0001f30a \u202e", "null", "[1]", ""]
    letters = [replace(make_letter(at), message=text, code=text) for at, text in enumerate(texts)]
    index.take(records(*(letter.encode() for letter in letters)))
    entries = index.page(Filter(), NEWEST, 10)
    assert [(entry.message, entry.code) for entry in entries[::-1]] == [(text, text) for text in texts]
    assert {code for _, code, _, _ in index.counts()} == set(texts)
    assert index.ids(Filter(), 10) == [letter.id for letter in letters]
    assert index.chosen(Filter(), OLDEST, 10, 10) == index.chosen_ids(letter.id for letter in letters)
