"""What arrived: every event of the pipeline's topics, by a consumer of committed records that is not the product's.

Invariant: each record is taken once and in its partition's order; `settle` has taken all that was committed when it
was called.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from chaos.fleet import tables
from confluent_kafka import Consumer, IsolationLevel, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from kit.wait import wait

from tidegate.contracts import names
from tidegate.contracts.dead_letter import DeadLetter, decode_dead_letter
from tidegate.lsn import parse_lsn

_CALL_SECONDS = 10.0
_SETTLE_SECONDS = 60.0
_LOOK_SECONDS = 0.5
_AT_ONCE = 5_000
_NOTICES = ("SCHEMA_CHANGE", "SNAPSHOT_STARTED", "SNAPSHOT_COMPLETED")
"""About tables, not about rows."""
_BEHIND_THE_CHANGES = 2**40


@dataclass(frozen=True, slots=True)
class Arrived:
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes
    event: dict[str, Any]

    @property
    def position(self) -> tuple[int, int]:
        """Rows of a snapshot have one among changes, and none among themselves."""
        return self.commit_lsn, _BEHIND_THE_CHANGES if self.is_row else int(self.event["position"]["ordinal"].digits)

    @property
    def is_row(self) -> bool:
        """Of a snapshot, not a change."""
        return self.kind == "SNAPSHOT"

    @property
    def commit_lsn(self) -> int:
        return int(parse_lsn(self.event["position"]["commit_lsn"]))

    @property
    def xid(self) -> int:
        return int(self.event["transaction"]["xid"].digits)

    @property
    def table(self) -> str:
        return str(self.event["payload"]["table"])

    @property
    def kind(self) -> str:
        return str(self.event["operation"])


class Deliveries:
    def __init__(self, bootstrap: str, pipeline: str, *, at_once: int = _AT_ONCE) -> None:
        self._at_once = at_once
        self._prefix = f"{pipeline}.public."
        settings = {"bootstrap.servers": bootstrap, "group.id": f"chaos-{pipeline}", "log_level": 0}
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._consumer = Consumer(
            settings
            | {
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 50,
            }
        )
        self._look_at = 0.0
        self._letters = names.dead_letter_topic(pipeline)
        self._dead: list[DeadLetter] = []
        self._next: dict[tuple[str, int], int] = {}
        self._ends: dict[tuple[str, int], int] = {}
        """Where the consumer has come to the end, behind the markers of commits too."""

    def close(self) -> None:
        self._consumer.close()

    @property
    def partitions(self) -> Iterable[tuple[str, int]]:
        return tuple(self._next)

    def discover(self, *, now: bool = False) -> None:
        """Topics appear when their first event is delivered; they are looked for twice a second at most."""
        if not now and time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + _LOOK_SECONDS
        topics = self._admin.list_topics(timeout=_CALL_SECONDS).topics
        ours = {
            name: topic.partitions
            for name, topic in topics.items()
            if name.startswith(self._prefix) or name == self._letters
        }
        found = [(name, number) for name, partitions in ours.items() for number in partitions]
        new = [each for each in found if each not in self._next]
        if new:
            self._next.update(dict.fromkeys(new, 0))
            self._consumer.assign([TopicPartition(*each, offset) for each, offset in self._next.items()])

    def poll(self, seconds: float = 0.1) -> list[Arrived]:
        arrived = []
        for message in self._consumer.consume(self._at_once, seconds) if self._next else ():
            place, error = (message.topic() or "", message.partition() or 0), message.error()
            if error is None:
                if place[0] == self._letters:
                    self._dead.append(decode_dead_letter(message.value() or b""))
                else:
                    found = _arrived(message)
                    arrived += [found] if found.kind not in _NOTICES else []
                self._next[place] = (message.offset() or 0) + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                self._ends[place] = message.offset() or 0
        return arrived

    def take_dead(self) -> list[DeadLetter]:
        dead, self._dead = self._dead, []
        return dead

    def settle(self) -> list[Arrived]:
        """Up to what is written now: a transaction that is committed may still be waiting for its markers."""
        self.discover(now=True)
        ends = self._written()
        taken: list[Arrived] = []

        def done() -> bool:
            taken.extend(self.poll())
            return all(max(self._ends.get(each, 0), self._next[each]) >= end for each, end in ends.items())

        wait(done, _SETTLE_SECONDS, "all committed events are taken")
        return taken

    def _written(self) -> dict[tuple[str, int], int]:
        asked = {TopicPartition(*each): OffsetSpec.latest() for each in self._next}
        answers = self._admin.list_offsets(asked, isolation_level=IsolationLevel.READ_UNCOMMITTED) if asked else {}
        return {(each.topic, each.partition): answer.result(_CALL_SECONDS).offset for each, answer in answers.items()}


def _arrived(message: Message) -> Arrived:
    value = message.value() or b""
    place = message.topic() or "", message.partition() or 0, message.offset() or 0
    return Arrived(*place, message.key(), value, tables.parse(value))
