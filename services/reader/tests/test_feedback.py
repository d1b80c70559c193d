"""A server that shuts down asks again after each reply; a server that is only curious does not."""

from tidegate.lsn import Lsn
from tidegate_reader.feedback import STORM_REQUESTS, StormWatch


def requests(watch: StormWatch, count: int, every_seconds: float, lsn: int = 1) -> list[bool]:
    return [watch.request(Lsn(lsn), number * every_seconds) for number in range(count)]


def test_many_requests_at_one_lsn_are_a_storm() -> None:
    assert requests(StormWatch(), STORM_REQUESTS, 0.01) == [False] * (STORM_REQUESTS - 1) + [True]


def test_slow_requests_are_none() -> None:
    assert not any(requests(StormWatch(), STORM_REQUESTS * 3, 0.06))


def test_progress_is_none() -> None:
    watch = StormWatch()
    assert not any(watch.request(Lsn(number), number / 1000) for number in range(STORM_REQUESTS * 3))
