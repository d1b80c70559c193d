"""Which raw records are taken, dropped, void, or the end of a lane."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.frames import GENERATION, RawLog, row

from tidegate.contracts.cursor import Cursor
from tidegate.contracts.generation import Generation
from tidegate.errors import DecodeError, StreamError, TransientError
from tidegate.lsn import Lsn
from tidegate.position import Position
from tidegate_processor.ingest import Ingest


def taken(ingest: Ingest, frames: list[bytes], start: int = 0) -> list[int]:
    """The offsets that were taken."""
    return [found.offset for at, frame in enumerate(frames, start) for found in ingest.feed(at, frame)]


def cursor(log: RawLog, next_offset: int, *, epoch: int = 1, seq: int) -> Cursor:
    return Cursor(
        generation=log.generation.id,
        topic_id="topic",
        epoch=epoch,
        epoch_nonce=epoch.to_bytes(16, "big").hex(),
        seq=seq,
        next_offset=next_offset,
        position=Position(Lsn(1), 0),
        safe_lsn=Lsn(1),
        config_epoch="c",
        incarnation=1,
    )


def test_frames_of_one_epoch_are_taken_in_order() -> None:
    log = RawLog()
    frames = [log.epoch(), log.transaction(row(1)), log.tick(), log.transaction(row(2))]

    assert taken(Ingest(None, "topic", lambda: "topic"), frames) == [0, 1, 2, 3]


def test_what_lies_below_the_cursor_was_seen() -> None:
    log = RawLog()
    frames = [log.epoch(), log.transaction(row(1)), log.transaction(row(2))]

    assert taken(Ingest(cursor(log, 2, seq=1), "topic", lambda: "topic"), frames) == [2]


def test_an_offset_that_was_skipped_makes_the_lane_look_again() -> None:
    log = RawLog()
    frames = [log.epoch(), log.transaction(row(1)), log.transaction(row(2))]

    with pytest.raises(TransientError) as raised:
        taken(Ingest(cursor(log, 1, seq=0), "topic", lambda: "topic"), frames[2:], start=2)

    assert raised.value.code == "RAW_OFFSET_SKIPPED"


def test_left_overs_of_an_older_epoch_are_void() -> None:
    old, new = RawLog(), RawLog()
    frames = [old.epoch(1), old.transaction(row(1)), new.epoch(2), old.transaction(row(2)), new.transaction(row(2))]
    ingest = Ingest(None, "topic", lambda: "topic")

    assert taken(ingest, frames) == [0, 1, 2, 4]
    assert ingest.void_frames == 1


def test_an_epoch_frame_that_is_not_above_the_current_one_is_void() -> None:
    first, second = RawLog(), RawLog()
    frames = [first.epoch(2), second.epoch(2), first.transaction(row(1))]

    assert taken(Ingest(None, "topic", lambda: "topic"), frames) == [0, 2]


def test_two_readers_with_one_number_are_told_apart_by_their_nonce() -> None:
    first, second = RawLog(), RawLog()
    opening = first.epoch(2)
    second.epoch(2)
    second._nonce = bytes(15) + b"\xff"
    foreign = second.transaction(row(9))

    assert taken(Ingest(None, "topic", lambda: "topic"), [opening, foreign, first.transaction(row(1))]) == [0, 2]


def test_nothing_behind_a_hole_is_taken_until_a_new_epoch() -> None:
    log = RawLog()
    frames = [log.epoch(), log.transaction(row(1))]
    log.transaction(row(2))  # lost on its way
    frames += [log.transaction(row(3)), log.transaction(row(4))]
    ingest = Ingest(None, "topic", lambda: "topic")

    assert taken(ingest, frames) == [0, 1]
    assert ingest.hole_at == 2

    healed = RawLog()
    healed.epoch(1)
    healed.transaction(row(1))
    assert taken(ingest, [healed.epoch(2), healed.transaction(row(2))], start=4) == [4, 5]
    assert ingest.hole_at is None


@pytest.mark.parametrize("first_seen", [3, 4])
def test_a_log_that_was_lost_and_grew_beyond_the_lane_is_told_at_once(first_seen: int) -> None:
    """The lane had read three frames of epoch 1. It finds a frame of an epoch that began where it had read, or an epoch
    frame that speaks of one: behind either it would go on as if it had seen the others."""
    log = RawLog()
    log.epoch(2)
    for number in range(3):
        log.transaction(row(number))
    log.epoch(3)

    with pytest.raises(StreamError) as raised:
        taken(Ingest(cursor(log, first_seen, seq=2), "topic", lambda: "topic"), log.frames[first_seen:], first_seen)

    assert raised.value.code == "RAW_TOPIC_TRUNCATED"


@pytest.mark.parametrize(("sent", "is_lost"), [(256, False), (257, True)])
def test_a_hole_is_waited_out_unless_its_writer_goes_on(sent: int, is_lost: bool) -> None:
    log = RawLog()
    frames = [log.epoch()]
    log.tick()  # lost on its way
    frames += [log.tick() for _ in range(sent)]
    ingest = Ingest(None, "topic", lambda: "topic")

    if not is_lost:
        assert taken(ingest, frames) == [0]
        return
    with pytest.raises(StreamError) as raised:
        taken(ingest, frames)
    assert raised.value.code == "RAW_TOPIC_HOLE"


def test_a_new_generation_ends_the_lane() -> None:
    log = RawLog()
    recreated = RawLog(Generation(GENERATION.system_identifier, 1, "shop", "tidegate_shop", b"another birth!!!"))
    frames = [log.epoch(1), recreated.epoch(2)]

    with pytest.raises(StreamError) as raised:
        taken(Ingest(None, "topic", lambda: "topic"), frames)

    assert raised.value.code == "GENERATION_CHANGED"


def test_a_damaged_frame_ends_the_lane() -> None:
    log = RawLog()
    damaged = bytearray(log.epoch())
    damaged[40] ^= 1

    with pytest.raises(DecodeError):
        taken(Ingest(None, "topic", lambda: "topic"), [bytes(damaged)])


@given(st.lists(st.sampled_from(["transaction", "tick", "epoch", "zombie", "lost"]), max_size=40), st.integers(0, 40))
def test_a_lane_that_starts_again_takes_what_it_would_have_taken(steps: list[str], stop_at: int) -> None:
    """Stopping after any frame and starting at the cursor changes nothing."""
    log, zombie = RawLog(), RawLog()
    log.epoch()
    zombie.epoch()
    for step in steps:
        if step == "epoch":
            log.epoch()
        elif step == "zombie":
            log.frames.append(zombie.transaction(row(0)))
        elif step == "tick":
            log.tick()
        else:
            log.transaction(row(1))
        if step == "lost":
            log.frames.pop()
    frames = log.frames
    whole = taken(Ingest(None, "topic", lambda: "topic"), frames)

    first = Ingest(None, "topic", lambda: "topic")
    done = taken(first, frames[:stop_at])
    if not done:
        return
    resumed = Cursor(
        generation=first.generation or "",
        topic_id="topic",
        epoch=first.epoch,
        epoch_nonce=first.epoch_nonce.hex(),
        seq=first.seq,
        next_offset=done[-1] + 1,
        position=Position(Lsn(1), 0),
        safe_lsn=Lsn(1),
        config_epoch="c",
        incarnation=1,
    )

    assert whole == done + taken(Ingest(resumed, "topic", lambda: "topic"), frames)


@given(st.binary(max_size=400))
def test_any_bytes_are_refused_cleanly(value: bytes) -> None:
    with pytest.raises(DecodeError):
        taken(Ingest(None, "topic", lambda: "topic"), [value])


def test_another_generation_is_told_even_when_its_epoch_is_lower() -> None:
    log = RawLog()
    recreated = RawLog(Generation(GENERATION.system_identifier, 1, "shop", "tidegate_shop", b"another birth!!!"))
    frames = [log.epoch(7), log.transaction(row(1)), recreated.epoch(1)]

    with pytest.raises(StreamError) as raised:
        taken(Ingest(None, "topic", lambda: "topic"), frames)

    assert raised.value.code == "GENERATION_CHANGED"


def test_parts_are_joined_under_the_offset_of_the_last() -> None:
    log = RawLog()
    log.epoch()
    log.in_parts(row(1, "long " * 50), parts=3)

    assert taken(Ingest(None, "topic", lambda: "topic"), log.frames) == [0, 3, 4]


def test_parts_of_an_epoch_that_ended_between_them_are_void() -> None:
    log, after = RawLog(), RawLog()
    log.epoch(1)
    log.in_parts(row(1, "long " * 50), parts=3)
    frames = [*log.frames[:3], after.epoch(2), after.transaction(row(1))]

    assert taken(Ingest(None, "topic", lambda: "topic"), frames) == [0, 3, 4]


def test_a_log_that_begins_inside_parts_is_read_from_behind_them() -> None:
    log = RawLog()
    log.epoch()
    log.in_parts(row(1, "long " * 50), parts=3)

    assert taken(Ingest(None, "topic", lambda: "topic"), log.frames[2:], start=2) == [4]


def test_a_whole_frame_between_parts_is_not_what_a_reader_writes() -> None:
    log = RawLog()
    log.epoch()
    log.in_parts(row(1, "long " * 50), parts=2)
    other = RawLog()
    other.epoch()
    other.transaction(row(1))
    other.transaction(row(2))

    with pytest.raises(StreamError) as raised:
        taken(Ingest(None, "topic", lambda: "topic"), [*log.frames[:2], other.frames[2]])

    assert raised.value.code == "PARTS_OUT_OF_ORDER"


def test_a_void_frame_at_the_trimmed_beginning_holds_nobody_up() -> None:
    """The epoch frame that voids it was trimmed away with what stood before it; the writer it disturbed has gone."""
    old, new = RawLog(), RawLog()
    old.epoch(1)
    late = old.transaction(row(9))
    new.epoch(3)
    new._epoch_offset = 5
    log = [late, new.frames[0], new.transaction(row(1)), new.transaction(row(2))]

    assert taken(Ingest(None, "topic", lambda: "topic"), log, start=4) == [5, 6, 7]


def test_a_lane_without_a_past_does_not_believe_an_epoch_it_should_have_seen_begin() -> None:
    """Late frames of the topic that was there before, under its old offsets."""
    old, new = RawLog(topic_id="before"), RawLog()
    old.epoch(1)
    old._epoch_offset = 40
    log = [old.transaction(row(9)), new.epoch(1), new.transaction(row(1))]

    assert taken(Ingest(None, "topic", lambda: "topic"), log) == [1, 2]


def test_an_epoch_frame_for_another_topic_is_void_if_the_topic_is_still_ours() -> None:
    stale, log = RawLog(topic_id="before"), RawLog()
    frames = [stale.epoch(1), log.epoch(2), log.transaction(row(1))]

    assert taken(Ingest(None, "topic", lambda: "topic"), frames) == [1, 2]


def test_a_topic_made_again_under_a_lane_makes_it_start_anew() -> None:
    log = RawLog(topic_id="made again")

    with pytest.raises(TransientError) as raised:
        taken(Ingest(None, "topic", lambda: "made again"), [log.epoch(1)])

    assert raised.value.code == "RAW_TOPIC_RECREATED"


def test_a_record_without_a_value_is_no_frame() -> None:
    with pytest.raises(DecodeError):
        list(Ingest(None, "topic", lambda: "topic").feed(0, None))
