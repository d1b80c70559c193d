"""The clock of a backlog: where its topics end for a consumer of committed records.

Nobody consumes while the clock runs: on a small machine a consumer takes a share of what is measured, and the faster
the contestant, the larger a share. What stands in the topics is read and judged afterwards.
"""

import time
from collections.abc import Callable, Collection

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from bench.contestants.base import ContestantError

EVERY_SECONDS = 0.05
STANDS_SECONDS = 2.0
"""Longer than any contestant pauses in the midst of its work: ends count tombstones and marks of transactions too, so
reaching a number of events is not yet the end."""
REST = 10
"""Times as long as a question took, none is asked: it costs the broker something, with a thousand topics."""
CALL_SECONDS = 30.0


class Ends:
    def __init__(self, bootstrap: str, topics: Collection[str]) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._asked = {TopicPartition(topic, 0): OffsetSpec.latest() for topic in topics}

    def total(self) -> int:
        found = self._admin.list_offsets(
            self._asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=CALL_SECONDS
        )
        return sum(each.result(CALL_SECONDS).offset for each in found.values())

    def check_still(self, stood: int) -> None:
        """Raises ContestantError if it went on after the clock had been stopped."""
        if self.total() != stood:
            raise ContestantError("events came after the clock had been stopped")

    def stood(self, wanted: int, advanced: Callable[[], None], alive: Callable[[], None], quiet_seconds: float) -> int:
        """The total once it stands at `wanted` or behind, or has stood anywhere for too long; `advanced` is called at
        each step of the former: the last call was the end."""
        seen, last, looked = -1, time.monotonic(), time.monotonic()
        while True:
            asked = time.monotonic()
            total = self.total()
            now = time.monotonic()
            if total > seen:
                seen, last = total, now
                if total >= wanted:
                    advanced()
            elif now - last > (STANDS_SECONDS if total >= wanted else quiet_seconds):
                return total
            if now - looked > 1:
                alive()
                looked = now
            time.sleep(max(EVERY_SECONDS, REST * (now - asked)))
