"""The wait for full batches before a flush.

The client has one batch of a partition on its way. Until somebody flushes it sleeps until that one is acknowledged, and
while somebody does its thread spins for as long as more waits behind it: 0.7 CPU-s a million events, a seventh of what
a backlog cost. Full batches need no flush, so what they are acknowledged in is slept through first.
"""

import math
import time

from confluent_kafka import Producer

# Without an acknowledgement. Where none comes the flush has its turn: it is as right, and costs what it did.
_PATIENCE_SECONDS = 0.02
_LOOK_SECONDS = 0.002


class Draining:
    def __init__(self, batch_bytes: int, patience_seconds: float = _PATIENCE_SECONDS) -> None:
        self._batch_bytes, self._patience = batch_bytes, patience_seconds
        self._sent: dict[str, tuple[int, int, int]] = {}

    def sent(self, topic: str, partitions: int, events: int, events_bytes: int) -> None:
        before = self._sent.get(topic, (0, 0, 0))
        self._sent[topic] = partitions, before[1] + events, before[2] + events_bytes

    def wait(self, producer: Producer) -> None:
        """Until only those remain that fill no batch, and the one on its way."""
        rest = sum(self._rest(*each) for each in self._sent.values())
        self._sent.clear()
        left, until = len(producer), time.monotonic() + self._patience
        while left > rest and time.monotonic() < until:
            producer.poll(_LOOK_SECONDS)
            if len(producer) != left:
                left, until = len(producer), time.monotonic() + self._patience

    def _rest(self, partitions: int, events: int, events_bytes: int) -> int:
        """At most, if sizes are alike: a batch less than full of each partition."""
        of_a_batch = math.ceil(events * self._batch_bytes / max(events_bytes, 1))
        return min(events, partitions * of_a_batch)
