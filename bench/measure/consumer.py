"""The consumers: one that counts while the clock runs, one that reads every event again and judges completeness.

Both read committed records only. Invariant: speed is told of what the judge found complete, and of nothing else.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.contestants.base import Change, ContestantError
from bench.workloads import Workload

AT_ONCE = 10_000
POLL_SECONDS = 0.05
ADMIN_SECONDS = 120.0
TOPICS_AT_ONCE = 200
INDEX_INTERVAL_BYTES = 4096
"""Kafka's own default: after so much there is an entry."""


def make_topics(bootstrap: str, names: Sequence[str]) -> None:
    """Made here for everybody, so that they are alike, and nobody's time; and none is new to its broker's disk."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for at in range(0, len(names), TOPICS_AT_ONCE):
        made = admin.create_topics([NewTopic(name, 1, 1) for name in names[at : at + TOPICS_AT_ONCE]])
        for each in made.values():
            each.result(ADMIN_SECONDS)
    _use(bootstrap, names)


def _use(bootstrap: str, names: Sequence[str]) -> None:
    """Two records that no consumer takes for events. At the first entry of each of a log's two indexes a file system
    looks for room, 2 ms and more on some: with a thousand new topics, that was nine tenths of what was measured."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "compression.type": "none"})
    for size in (INDEX_INTERVAL_BYTES, 0):
        for name in names:
            producer.produce(name, key=bytes(size), value=None)
        if producer.flush(ADMIN_SECONDS) > 0:
            raise ContestantError("the broker does not take records of the topics that were made")


def delete_topics(bootstrap: str, prefixes: Sequence[str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    names = [name for name in admin.list_topics(timeout=30).topics if name.startswith(tuple(prefixes))]
    for at in range(0, len(names), TOPICS_AT_ONCE):
        for each in admin.delete_topics(names[at : at + TOPICS_AT_ONCE]).values():
            each.result(ADMIN_SECONDS)


class Reading:
    """All topics of a session, from their beginning."""

    def __init__(self, bootstrap: str, topics: Collection[str], *, alive: Callable[[], None]) -> None:
        self._alive = alive
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "bench",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 5,
                "queued.min.messages": 100_000,
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, 0) for topic in topics])

    def arrived(self, quiet_seconds: float) -> Iterator[list[Message]]:
        """Events as they come, without tombstones; ends when nothing has come for so long, or the caller has enough."""
        last = looked = time.monotonic()
        while True:
            found = self._consumer.consume(AT_ONCE, 0) or [self._consumer.poll(POLL_SECONDS)]
            events = [message for message in found if message is not None and _value(message) is not None]
            yield events
            now = time.monotonic()
            if events:
                last = now
            elif now - looked > 1:
                self._alive()
                looked = now
            if now - last > quiet_seconds:
                return

    def count(self, wanted: int, topics: Collection[str], quiet_seconds: float) -> bool:
        """Whether so many came on these topics; what still comes on others belongs to an earlier step."""
        seen = 0
        for events in self.arrived(quiet_seconds):
            seen += sum(message.topic() in topics for message in events)
            if seen >= wanted:
                return True
        return False

    def close(self) -> None:
        self._consumer.close()


@dataclass
class Verdict:
    expected: int
    keeps_order: bool
    """Whether keys come again, so that an order can be broken."""
    distinct: int = 0
    doubled: int = 0
    overtaken: int = 0
    foreign: int = 0
    _seen: bytearray = field(init=False)
    _last: dict[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._seen = bytearray(self.expected)

    @property
    def lost(self) -> int:
        return self.expected - self.distinct

    @property
    def is_complete(self) -> bool:
        return not (self.lost or self.overtaken or self.foreign)

    def see(self, topic: str, key: int, number: int) -> None:
        if not 0 <= number < self.expected:
            self.foreign += 1
            return
        if self._seen[number]:
            self.doubled += 1
            return
        self._seen[number] = 1
        self.distinct += 1
        if self.keeps_order:
            last = self._last.get((topic, key), -1)
            self.overtaken += last > number
            self._last[topic, key] = max(number, last)


def judge(
    reading: Reading, workload: Workload, change_of: Callable[[bytes], Change], quiet_seconds: float = 5.0
) -> Verdict:
    """Reads on until everything was seen; once more may have come than was due, a moment longer."""
    verdict = Verdict(workload.events, workload.repeats_keys)
    last = time.monotonic()
    for events in reading.arrived(quiet_seconds):
        for message in events:
            change = change_of(_value(message) or b"")
            is_delete = change.operation == "d"
            number = workload.number_of_delete(change.key) if is_delete else change.number
            verdict.see(message.topic(), change.key, -1 if number is None else number)
            last = time.monotonic()
        if time.monotonic() - last > (0.5 if verdict.lost == 0 else quiet_seconds):
            return verdict
    return verdict


def together(verdicts: Sequence[Verdict]) -> Verdict:
    """Of all lanes: what one has lost, no other makes good."""
    whole = Verdict(0, keeps_order=False)
    for each in verdicts:
        whole.expected += each.expected
        whole.distinct += each.distinct
        whole.doubled += each.doubled
        whole.overtaken += each.overtaken
        whole.foreign += each.foreign
    return whole


def _value(message: Message) -> bytes | None:
    if message.error() is not None:
        raise ContestantError(f"the consumer was refused: {message.error()}")
    return message.value()  # type: ignore[no-any-return]
