"""The ack of a sink with several writers: the least of theirs, and none while one of them has none."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import redis as redis_client
from hypothesis import given
from hypothesis import strategies as st

from tidegate.checkpoint.redis_store import read_ack
from tidegate.checkpoint.store import AckOutcome
from tidegate.checkpoint.writer_acks import least_ack, write_writers_ack
from tidegate.contracts.ack import Ack
from tidegate.lsn import Lsn
from tidegate.position import Position


def ack(place: int, *, topic: str = "topic", epoch: int = 1) -> Ack:
    return Ack("events", "g1", epoch, topic, place, Position(Lsn(place), 0), Lsn(place + 1), place)


@given(st.lists(st.tuples(st.integers(1, 99), st.integers(1, 3)), min_size=1, max_size=5))
def test_it_says_no_more_than_any_of_them(places: list[tuple[int, int]]) -> None:
    acks = [ack(place, epoch=epoch) for place, epoch in places]

    least = least_ack(acks)

    assert least is not None
    for each in acks:
        assert least.position <= each.position
        assert (least.offset, least.safe_lsn) <= (each.offset, each.safe_lsn)
        assert least.epoch <= each.epoch


@pytest.mark.parametrize("other", [None, ack(9, topic="made again")])
def test_without_all_of_them_in_one_topic_there_is_none(other: Ack | None) -> None:
    assert least_ack([ack(5), other]) is None


@pytest.fixture
def client(redis) -> Iterator[redis_client.Redis]:
    client = redis_client.Redis.from_url(redis.url)
    yield client
    client.close()


def test_whoever_is_last_writes_the_sinks_own(client: redis_client.Redis, prefix: str) -> None:
    assert write_writers_ack(client, prefix, ack(7), [0], 2) is AckOutcome.LOWER
    assert read_ack(client, prefix, "g1", "events") is None

    assert write_writers_ack(client, prefix, ack(5), [1], 2) is AckOutcome.ACCEPTED
    assert read_ack(client, prefix, "g1", "events") == replace(ack(5), time=7)

    write_writers_ack(client, prefix, ack(9), [0, 1], 2)
    assert read_ack(client, prefix, "g1", "events") == ack(9)


def test_of_another_number_of_writers_nothing_counts(client: redis_client.Redis, prefix: str) -> None:
    write_writers_ack(client, prefix, ack(5), [0, 1], 2)
    write_writers_ack(client, prefix, ack(9), [0, 1], 3)

    assert read_ack(client, prefix, "g1", "events") == ack(5)
