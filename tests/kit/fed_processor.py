"""The processor as a process, fed by hand: a raw log in place of a reader, and what its lane says and acks."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis as redis_client
from confluent_kafka import Message
from kit.exposed import told
from kit.fleet import Service, service, spark_jars
from kit.frames import RawLog, row
from kit.pipelines import document, secrets_of, written
from kit.topics import Inbox, append, make_topic

from tidegate.contracts import names
from tidegate.contracts.status import LaneStatus, ReaderStatus, State

SINK = "events"
START_SECONDS = 90


@dataclass
class FedProcessor:
    pipeline: str
    bootstrap: str
    client: redis_client.Redis
    processor: Service
    log: RawLog
    sinks: tuple[str, ...] = (SINK,)
    http: str = ""
    """Where its metrics are."""

    @property
    def orders(self) -> str:
        """The topic of the one table."""
        return f"{self.pipeline}.public.orders"

    def send(self, *frames: bytes) -> None:
        append(self.bootstrap, names.raw_topic(self.pipeline), frames)

    def rows(self, *numbers: int) -> None:
        self.send(self.log.transaction(*(row(number) for number in numbers)), self.log.tick())

    def figure(self, name: str, sink: str = SINK) -> float:
        """Of the lane, as the processor exposes it."""
        exposed = told(self.http, "/metrics")
        found = re.search(rf'^tidegate_processor_{name}{{sink="{sink}"}} (\S+)$', exposed, re.MULTILINE)
        return float(found[1]) if found else -1.0

    def read_all(self) -> None:
        """What a reader says that has nothing more to feed."""
        told = {"pipeline": self.pipeline, "generation": self.log.generation.id, "pid": 1, "time": 1, "started": 1}
        status = ReaderStatus(state=State.RUNNING, produced_lsn=self.log.safe_lsn, **told)
        self.client.set(names.reader_status_key(self.pipeline), status.encode())

    def status(self, sink: str = SINK) -> LaneStatus | None:
        value = self.client.get(names.lane_status_key(self.pipeline, sink))
        return LaneStatus.decode(value) if isinstance(value, bytes) else None

    def acked(self, sink: str = SINK) -> dict[str, Any]:
        value = self.client.hget(names.ack_key(self.pipeline, self.log.generation.id), sink)
        return json.loads(value) if isinstance(value, bytes) else {}

    @property
    def is_acked(self) -> bool:
        """All of it, by all sinks."""
        return all(self.acked(sink).get("safe_lsn") == f"{self.log.safe_lsn:016x}" for sink in self.sinks)


@contextmanager
def fed_processor(
    pipeline: str,
    folder: Path,
    *,
    kafka: str,
    redis_url: str,
    environ: dict[str, str] | None = None,
    processor: dict[str, Any] | None = None,
    reached_by: dict[str, Any] | None = None,
    sinks: Sequence[dict[str, Any]] = ({},),
) -> Iterator[FedProcessor]:
    """Not started yet. A sink is `events`, of the kind `kafka_topics`, where it does not say otherwise.
    `reached_by`: how the processor reaches the brokers, if not as we do."""
    raw_topic_id = make_topic(kafka, names.raw_topic(pipeline))
    values = document(pipeline, kafka=kafka, redis_url=redis_url)
    values["sinks"] = [{"name": SINK, "type": "kafka_topics", **sink} for sink in sinks]
    values["processor"] |= processor or {}
    values["kafka"] = reached_by or values["kafka"]
    file = written(folder, values)
    given = secrets_of(redis_url=redis_url) | spark_jars() | (environ or {})
    with service("tidegate-processor", file, given) as made:
        client = redis_client.Redis.from_url(redis_url)
        named = tuple(sink["name"] for sink in values["sinks"])
        fed = FedProcessor(
            pipeline, kafka, client, made, RawLog(topic_id=raw_topic_id), named, values["processor"]["http"]
        )
        fed.send(fed.log.epoch())
        yield fed
        client.close()


def numbers(box: Inbox, count: int, seconds: float = START_SECONDS) -> list[int]:
    """Of the rows that have arrived, when there are so many."""
    messages: list[Message] = box.until(lambda found: len(found) >= count, seconds, f"{count} events")
    return [json.loads(message.key())["id"] for message in messages]
