"""Distances in bytes, ages in seconds, and 0 for what has caught up."""

from hypothesis import given
from hypothesis import strategies as st

from tidegate.lag import IDLE, LsnHistory, lag


def history(*samples: tuple[float, int], size: int = 100) -> LsnHistory:
    levels = LsnHistory(size)
    for time, level in samples:
        levels.record(time, level)
    return levels


def test_what_has_caught_up_has_no_lag_however_long_ago() -> None:
    """An idle hour is not an hour of lag."""
    assert lag(100, 100, history((0, 100)), now=3600) is IDLE


def test_a_level_ahead_of_what_was_told_is_no_negative_lag() -> None:
    """The ack is read after the status of the reader, so it may lie beyond it."""
    assert lag(100, 140, history((0, 100)), now=1) is IDLE


def test_seconds_count_from_when_the_level_first_passed() -> None:
    """After an idle hour the first second of lag is one second."""
    levels = history((0, 100), (3600, 200), (3601, 300))
    found = lag(300, 100, levels, now=3602)
    assert (found.bytes, found.seconds) == (200, 2.0)


def test_a_lane_that_has_passed_the_first_step_is_as_late_as_the_next() -> None:
    found = lag(300, 250, history((0, 100), (10, 200), (20, 300)), now=25)
    assert found.seconds == 5.0


def test_beyond_the_history_the_newest_delivered_commit_tells() -> None:
    """After a restart of this service nothing is known of the time before."""
    levels = history((0, 300))
    assert lag(300, 100, levels, now=1, newest_commit=7200).seconds == 7200


def test_what_nothing_tells_the_age_of_is_late_since_the_history_began() -> None:
    """A lane that has stood since before this service began and has delivered nothing since looked level."""
    levels = history((10, 300), (20, 400))
    assert [lag(400, 100, levels, now=now).seconds for now in (21, 71)] == [11.0, 61.0]


def test_the_history_is_bounded() -> None:
    """What falls out of it is unknown, not forgotten to be late."""
    levels = history(*((second, second * 10) for second in range(1, 11)), size=3)
    assert levels.age(10, 10) is None
    assert levels.age(80, 10) == 1.0


def test_a_level_that_goes_back_begins_a_new_history() -> None:
    """Another generation: its LSNs do not compare with the old ones."""
    levels = history((0, 1000), (1, 10), (2, 20))
    assert levels.age(10, 5) == 3.0


@given(st.lists(st.integers(1, 1000), min_size=1), st.integers(0, 1000))
def test_an_age_is_never_negative_and_zero_only_when_reached(levels: list[int], reached: int) -> None:
    recorded = history(*enumerate(sorted(levels)))
    age = recorded.age(reached, now=len(levels))
    assert age is None or age >= 0
    assert (reached >= max(levels)) == (age == 0.0)
