"""Reads the shop's topics as a careful consumer would: committed records only, each partition from where it was.

Invariant: every record from the moment of `open` on is judged exactly once by this reader, in the order of its
partition; topics that the sink makes later are read from their beginning.
"""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from tidegate.errors import StreamError, TransientError
from tidegate_admin.demo.ledger import Event
from tidegate_admin.demo.shop import Change

PARTITIONS = 2
_LOOK_SECONDS = 0.25
_POLL_MS = 100

Judge = Callable[[Event], object]


@dataclass(slots=True)
class Consumer:
    bootstrap: str
    topics: Sequence[str]
    judge: Judge
    first_event: float | None = None
    """Monotonic time at which the first event was here."""

    async def run(self) -> None:
        client = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            isolation_level="read_committed",
            enable_auto_commit=False,
            fetch_max_wait_ms=500,
        )
        try:
            await client.start()
            try:
                await self._read(client)
            finally:
                await client.stop()
        except KafkaError as error:
            raise TransientError(
                f"the demo's consumer failed: {type(error).__name__}",
                code="DEMO_CONSUMER_FAILED",
                remedy="Read kafka.log in the state directory.",
            ) from error

    async def _read(self, client: Any) -> None:  # aiokafka is not typed
        places = await self._ends(client)
        next_look = 0.0
        while True:
            if len(places) < len(self.topics) * PARTITIONS and time.monotonic() >= next_look:
                places = await self._with_new_topics(client, places)
                next_look = time.monotonic() + _LOOK_SECONDS
            if not places:  # without a partition the client would wait for one for ever
                await asyncio.sleep(_LOOK_SECONDS)
                continue
            for place, records in (await client.getmany(timeout_ms=_POLL_MS)).items():
                now = time.time()
                self.first_event = self.first_event or time.monotonic()
                for record in records:
                    self.judge(parse_event(record.key, record.value, now))
                places[place] = records[-1].offset + 1

    async def _ends(self, client: Any) -> "dict[TopicPartition, int]":
        """What an earlier run delivered is not this run's business."""
        there = _partitions(set(self.topics) & await client.topics())
        ends: dict[TopicPartition, int] = await client.end_offsets(there) if there else {}
        _assign(client, ends)
        return dict(ends)

    async def _with_new_topics(self, client: Any, places: "dict[TopicPartition, int]") -> "dict[TopicPartition, int]":
        there = _partitions(set(self.topics) & await client.topics())
        new = [place for place in there if place not in places]
        if not new:
            return places
        wanted = places | dict.fromkeys(new, 0)
        _assign(client, wanted)
        return wanted


def _assign(client: Any, places: "dict[TopicPartition, int]") -> None:
    if places:
        client.assign(list(places))
        for place, offset in places.items():
            client.seek(place, offset)


def _partitions(topics: set[str]) -> "list[TopicPartition]":
    return [TopicPartition(topic, number) for topic in sorted(topics) for number in range(PARTITIONS)]


def parse_event(key: bytes | None, value: bytes, now: float) -> Event:
    """Only what the books need; a value that is no event is a failure of the sink, and ends the demo."""
    try:
        document = json.loads(value)
        transaction = document["transaction"]
        change = Change(
            table=document["payload"]["table"],
            operation=document["operation"],
            key=tuple(json.loads(key).values()) if key else (),
        )
        committed = datetime.fromisoformat(transaction["commit_time"]).timestamp()
        return Event(transaction["xid"], transaction["seq"], change, max(0.0, now - committed))
    except (ValueError, KeyError, TypeError) as error:
        raise StreamError(
            "a record on the shop's topics is no event",
            code="DEMO_EVENT_MALFORMED",
            remedy="Report this: the kafka_topics sink wrote what docs/reference/event.md does not describe.",
        ) from error
