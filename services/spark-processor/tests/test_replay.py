"""Letters delivered again: each once, as the same event, and never behind something newer of its key."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from kit.frames import GENERATION, ORDERS, RawLog, row
from kit.memory_sink import MemorySink

from tidegate.config.sinks import SinkConfig, SinkType
from tidegate.contracts.cursor import Cursor
from tidegate.contracts.dead_letter import DeadLetter, decode_dead_letter
from tidegate.contracts.frame import decode_frame
from tidegate.contracts.request import Asked, Fate, LaneRequest
from tidegate.contracts.resolution import Outcome, Resolution
from tidegate.errors import TransientError
from tidegate.pgoutput.messages import Delete, Insert, Message, OldKind, Truncate, Update
from tidegate_processor.commit import Delivery
from tidegate_processor.decode import Change
from tidegate_processor.kafka_clients import RawTopicView
from tidegate_processor.redelivery import Redelivery
from tidegate_processor.replay import Has, Letters, Watch, letters_in_order

SINK = SinkConfig(name="events", type=SinkType.KAFKA_TOPICS)


def poisoned(change: Change) -> bool:
    return b"poison" in change.raw


class Lane:
    """A lane that has delivered a whole log, but for what is poison; the topic of its letters is its sink's list."""

    def __init__(self, *changes: Message) -> None:
        self.log, self.sink = RawLog(), MemorySink(poisoned)
        self.log.epoch()
        for change in changes:
            self.log.transaction(change)
        self.deliver()

    def deliver(self) -> None:
        raw = RawTopicView("topic", 0, len(self.log.frames))
        delivery = Delivery(
            "shop",
            SINK,
            self.sink,
            look=lambda: raw,
            acked=lambda _: None,
            lineage=lambda: None,
            config_epoch="c1",
            incarnation=1,
        )
        delivery.feed(enumerate(self.log.frames))
        delivery.commit(at_the_end=True)

    @property
    def letters(self) -> list[DeadLetter]:
        return [each for each in self.sink.dead_letters if isinstance(each, DeadLetter)]

    def judged(self, request: LaneRequest, *, seen: int | None = None) -> tuple[Letters, dict[str, Fate]]:
        letters = Letters(request, "events")
        for record in self.sink.dead_letters:
            letters.take(record)
        watch = Watch(letters)
        for frame in self.log.frames[:seen]:
            watch.see(decode_frame(frame))
        for asked in letters.open.values():
            asked.is_covered = True
        assert self.sink.cursor is not None
        return letters, letters.fates(Has.of(self.sink.cursor), lambda _: True)

    def fates(self, *letters: DeadLetter, **more: bool) -> list[Fate]:
        request = asked(*letters, **more)
        fates = self.judged(request)[1]
        return [fates[letter.id] for letter in letters]

    def replay(self, *letters: DeadLetter, request: LaneRequest | None = None) -> list[Fate]:
        wanted = request or asked(*letters)
        found, fates = self.judged(wanted)
        cursor = self.sink.open()
        assert cursor is not None
        fates |= Redelivery(self.sink, cursor, GENERATION, wanted, "events", lambda: 7).deliver(
            letters_in_order(found, fates)
        )
        return [fates[letter.id] for letter in letters]


def asked(*letters: DeadLetter, number: int = 1, **more: bool) -> LaneRequest:
    return LaneRequest(f"r{number}", Asked.REPLAY, "somebody", 0, ids=tuple(letter.id for letter in letters), **more)


def mended(lane: Lane) -> Lane:
    lane.sink._poison = lambda _: False
    return lane


def changed(number: int, note: str) -> Update:
    return Update(ORDERS.relation_id, None, None, (str(number).encode(), note.encode()))


def moved(old: int, new: int) -> Update:
    key = (str(old).encode(), None)
    return Update(ORDERS.relation_id, OldKind.KEY, key, (str(new).encode(), b""))


def deleted(number: int) -> Delete:
    return Delete(ORDERS.relation_id, OldKind.KEY, (str(number).encode(), None))


def test_a_letter_whose_cause_is_mended_is_delivered_as_the_same_change() -> None:
    lane = mended(Lane(row(1), row(2, "poison"), row(3)))
    (letter,) = lane.letters
    cursor = lane.sink.cursor

    assert lane.replay(letter) == [Fate.DELIVERED]

    change = lane.sink.delivered[-1]
    assert (change.position, change.raw, change.transaction.xid) == (letter.position, letter.payload, letter.xid)
    assert (change.transaction.commit_time, change.lsn) == (letter.commit_time, letter.lsn)
    assert lane.sink.cursor == cursor
    assert isinstance(told := lane.sink.dead_letters[-1], Resolution)
    assert (told.outcome, told.ids, told.request, told.lane) == (Outcome.REPLAYED, (letter.id,), "r1", "events")


def test_what_was_delivered_by_another_request_is_not_delivered_again() -> None:
    lane = mended(Lane(row(2, "poison")))
    (letter,) = lane.letters
    lane.replay(letter)
    count = len(lane.sink.delivered)
    assert lane.replay(letter, request=asked(letter, number=2)) == [Fate.RESOLVED]
    assert len(lane.sink.delivered) == count


def test_a_run_that_was_cut_off_behind_its_commit_knows_its_own_work() -> None:
    lane = mended(Lane(row(2, "poison"), row(3, "poison")))
    first, second = lane.letters
    lane.replay(first)
    count = len(lane.sink.delivered)
    assert lane.replay(first, second, request=asked(first, second)) == [Fate.DELIVERED, Fate.DELIVERED]
    assert len(lane.sink.delivered) == count + 1


def test_a_commit_that_fails_leaves_nothing_behind() -> None:
    lane = mended(Lane(row(2, "poison")))
    (letter,) = lane.letters
    lane.sink.fail_next_commit = True
    with pytest.raises(TransientError):
        lane.replay(letter)
    assert (lane.sink.delivered, len(lane.sink.dead_letters)) == ([], 1)
    assert lane.replay(letter) == [Fate.DELIVERED]


def test_where_letters_are_committed_apart_no_resolution_speaks_of_what_is_not_there() -> None:
    """The events go first: cut off between the two, the letter is delivered twice and not lost."""
    lane = mended(Lane(row(2, "poison")))
    (letter,) = lane.letters
    lane.sink.capabilities = replace(lane.sink.capabilities, letters_too=False)
    commit, seen = lane.sink.commit, []

    def second_fails(cursor: Cursor) -> None:
        lane.sink.fail_next_commit = bool(seen)
        seen.append(cursor)
        commit(cursor)

    lane.sink.commit = second_fails  # type: ignore[method-assign]
    with pytest.raises(TransientError):
        lane.replay(letter)
    assert ([change.position for change in lane.sink.delivered], len(lane.sink.dead_letters)) == ([letter.position], 1)
    assert lane.fates(letter) == [Fate.DELIVERABLE]


def test_what_was_given_up_is_not_delivered() -> None:
    lane = mended(Lane(row(2, "poison")))
    (letter,) = lane.letters
    lane.sink.dead_letters.append(Resolution(Outcome.PURGED, (letter.id,), "somebody", 0))  # type: ignore[arg-type]
    assert lane.replay(letter) == [Fate.RESOLVED]
    assert lane.sink.delivered == []


@pytest.mark.parametrize(
    "newer",
    [
        pytest.param(changed(2, "newer"), id="an update"),
        pytest.param(deleted(2), id="a delete"),
        pytest.param(moved(2, 9), id="its key became another"),
        pytest.param(moved(8, 2), id="another key became its own"),
        pytest.param(Truncate((ORDERS.relation_id,), 0), id="a truncate"),
    ],
)
def test_a_letter_is_not_delivered_over_something_newer_of_its_key(newer: Message) -> None:
    lane = Lane(row(2, "poison"), row(1), newer)
    (letter,) = lane.letters
    assert lane.fates(letter) == [Fate.NEWER]
    assert lane.fates(letter, is_forced=True) == [Fate.DELIVERABLE]


def test_other_keys_do_not_matter() -> None:
    lane = Lane(row(2, "before"), changed(2, "poison"), changed(3, "other"), deleted(4), moved(5, 6))
    (letter,) = lane.letters
    assert lane.fates(letter) == [Fate.DELIVERABLE]


def test_letters_of_one_key_go_together_or_only_the_newest() -> None:
    lane = Lane(row(2, "poison 1"), changed(2, "poison 2"))
    older, newer = lane.letters
    assert lane.fates(older) == [Fate.NEWER]
    assert lane.fates(newer) == [Fate.DELIVERABLE]
    assert lane.fates(older, newer) == [Fate.DELIVERABLE, Fate.DELIVERABLE]
    mended(lane).replay(newer, older)
    assert [change.raw for change in lane.sink.delivered] == [older.payload, newer.payload]


def test_what_is_older_does_not_go_where_what_is_newer_may_not() -> None:
    lane = Lane(row(2, "poison 1"), changed(2, "poison 2"), changed(2, "newest"))
    assert lane.fates(*lane.letters) == [Fate.NEWER, Fate.NEWER]


def test_one_that_fails_again_stays_open_with_one_attempt_more() -> None:
    lane = Lane(row(2, "poison"))
    (letter,) = lane.letters
    assert lane.replay(letter) == [Fate.REJECTED]
    assert [each.attempts for each in lane.letters] == [1, 2]
    assert lane.letters[1].id == letter.id
    assert lane.fates(letter) == [Fate.DELIVERABLE]


def test_a_letter_that_the_lane_comes_by_again_is_left_to_it() -> None:
    lane = Lane(row(1), row(2, "poison"))
    (letter,) = lane.letters
    assert lane.sink.cursor is not None
    lane.sink.cursor = replace(lane.sink.cursor, position=lane.sink.delivered[0].position)
    assert lane.fates(letter, is_forced=True) == [Fate.AHEAD]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda letter: replace(letter, xid=None), id="without its transaction"),
        pytest.param(lambda letter: replace(letter, payload=b"", schema=()), id="too large to be kept"),
        pytest.param(lambda letter: replace(letter, generation="another"), id="of another generation"),
    ],
)
def test_what_cannot_be_delivered_alone_is_refused(change: Callable[[DeadLetter], DeadLetter]) -> None:
    lane = Lane(row(2, "poison"))
    letter = change(lane.letters[0])
    lane.sink.dead_letters[:] = [letter]
    assert lane.fates(letter, is_forced=True) == [Fate.UNABLE]


def test_another_lanes_letter_is_a_change_that_this_lane_has_had() -> None:
    lane = Lane(row(1), row(2, "poison"))
    lane.sink.dead_letters[:] = [letter := replace(lane.letters[0], lane="other", id="0" * 32)]
    request = replace(asked(letter), of_lane="other")
    assert lane.judged(request)[1] == {letter.id: Fate.NEWER}
    forced = replace(request, is_forced=True)
    assert mended(lane).replay(letter, request=forced) == [Fate.DELIVERED]
    assert isinstance(told := lane.sink.dead_letters[-1], Resolution)
    assert (told.outcome, told.closes) == (Outcome.COPIED, False)


def test_letters_without_a_transaction_are_read_as_before() -> None:
    letter = Lane(row(2, "poison")).letters[0]
    old = replace(letter, xid=None, commit_time=None, lsn=None)
    assert b"xid" not in old.encode()
    assert [decode_dead_letter(each.encode()) for each in (old, letter)] == [old, letter]


def test_unknown_letters_are_told() -> None:
    lane = Lane(row(1))
    assert lane.judged(LaneRequest("r", Asked.REPLAY, "somebody", 0, ids=("f" * 32,)))[1] == {"f" * 32: Fate.UNKNOWN}


def test_a_row_without_a_key_is_like_no_other() -> None:
    keyless = replace(ORDERS, columns=tuple(replace(column, flags=0) for column in ORDERS.columns))
    log = RawLog()
    lane = Lane()
    lane.log, lane.sink = log, MemorySink(poisoned)
    log.epoch()
    for note in ("poison", "b", "b"):
        log.transaction(Insert(ORDERS.relation_id, (b"1", note.encode())), relation=keyless)
    lane.deliver()
    assert lane.fates(*lane.letters) == [Fate.DELIVERABLE]
