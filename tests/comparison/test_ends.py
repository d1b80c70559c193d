"""The clock of a backlog against a real broker: it counts what is committed, and stops at the last that came."""

import threading
from typing import Any

import pytest
from bench.measure import ends
from bench.measure.consumer import make_topics
from bench.measure.ends import Ends
from confluent_kafka import Producer
from kit.wait import wait

SECONDS = 20.0


def transactional(bootstrap: str, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(SECONDS)
    return producer


def wrote(producer: Producer, topic: str, events: int) -> None:
    producer.begin_transaction()
    for _ in range(events):
        producer.produce(topic, b"event")
    producer.flush(SECONDS)


def test_the_clock_stops_at_the_last_commit_and_not_at_what_is_only_written(
    kafka: Any, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ends, "STANDS_SECONDS", 5.0)  # on a busy machine two commits may be a second apart
    topics = [f"{prefix}.a", f"{prefix}.b"]
    make_topics(kafka.bootstrap, topics)
    clock = Ends(kafka.bootstrap, topics)
    steps: list[int] = []
    found: list[int] = []

    def standing() -> None:
        found.append(clock.stood(made + 3, lambda: steps.append(clock.total()), lambda: None, SECONDS))

    measured = threading.Thread(target=standing)
    first, second = (transactional(kafka.bootstrap, f"{prefix}-{n}") for n in range(2))
    made = clock.total()
    assert made == 4, "two records in each: no topic is new"
    wrote(first, topics[0], 3)
    measured.start()
    assert clock.total() == made
    first.commit_transaction(SECONDS)
    wait(lambda: steps == [made + 4], SECONDS, "three events and the mark of their transaction")
    wrote(second, topics[1], 2)
    second.commit_transaction(SECONDS)
    measured.join(SECONDS)
    assert (steps, found) == ([made + 4, made + 7], [made + 7])


def test_what_never_comes_is_not_waited_for_for_ever(kafka: Any, prefix: str) -> None:
    topics = [f"{prefix}.a"]
    make_topics(kafka.bootstrap, topics)
    assert Ends(kafka.bootstrap, topics).stood(3, lambda: None, lambda: None, quiet_seconds=0.5) == 2
