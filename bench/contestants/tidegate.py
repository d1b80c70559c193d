"""Tidegate as it is shipped: reader and processor as processes of their own, one lane into topics, exactly once."""

import os
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import orjson
from kit.fleet import spark_jars
from kit.pipelines import document, secrets_of, written

from bench.contestants.base import PUBLICATION, Change, Contestant, ContestantError, Program, Rig
from tidegate.config.sinks import Trigger


class Tidegate(Contestant):
    trigger: ClassVar[Trigger]
    lanes: ClassVar[int] = 1

    def __init__(self, rig: Rig) -> None:
        super().__init__(rig)
        dsn = rig.postgres.dsn(rig.database)
        file = written(rig.folder, self._document(dsn))
        environ = self._environ() | secrets_of(redis_url=rig.redis.url, postgres=dsn)
        self.reader = _service("tidegate-reader", file, environ)
        self.processor = _service("tidegate-processor", file, environ)

    def _document(self, dsn: str) -> dict[str, Any]:
        rig = self.rig
        values = document(rig.name, kafka=rig.kafka.bootstrap, redis_url=rig.redis.url, postgres=dsn)
        values["source"]["slot"] = {"name": rig.slot}
        values["source"]["publication"] = {"manage": False, "names": [PUBLICATION]}
        values["sinks"] = [
            {"name": "events", "type": "kafka_topics", "trigger": str(self.trigger)},
            *(self._further(at) for at in range(1, self.lanes)),
        ]
        return values

    def _environ(self) -> dict[str, str]:
        return {**os.environ, **spark_jars()}

    def _further(self, at: int) -> dict[str, Any]:
        options = {"topic": f"lane{at}.{{pipeline}}.{{schema}}.{{table}}"}
        return {"name": f"lane{at}", "type": "kafka_topics", "trigger": str(self.trigger), "options": options}

    @classmethod
    def settings(cls) -> Mapping[str, str]:
        sink = "kafka_topics, exactly_once, lz4 (defaults)"
        return {"sink": sink, "trigger": str(cls.trigger), "lanes": str(cls.lanes)}

    @classmethod
    def versions(cls) -> Mapping[str, str]:
        names = ("tidegate-reader", "tidegate-processor", "pyspark", "confluent-kafka", "aiokafka", "numba")
        return {name: version(name) for name in names}

    def start(self) -> None:
        self.processor.start()
        self.reader.start()

    def pause(self) -> None:
        if self.reader.stop() != 0:
            raise ContestantError("the reader did not end cleanly")

    def resume(self) -> None:
        self.reader.start()

    def stop(self) -> None:
        self.reader.stop()
        self.processor.stop()

    def kill(self) -> None:
        self.reader.kill()
        self.processor.kill()

    def pids(self) -> Sequence[int]:
        """Its Redis too: nobody else needs one."""
        return [pid for pid in (self.reader.pid, self.processor.pid, self.rig.redis.pid) if pid is not None]

    def check(self) -> None:
        self.reader.check()
        self.processor.check()

    def topics(self) -> Sequence[str]:
        further = (f"lane{at}.{self.rig.name}." for at in range(1, self.lanes))
        return (f"{self.rig.name}.", f"tidegate.{self.rig.name}.", *further)

    def copies(self, table: str) -> Sequence[str]:
        return (self.rig.topic(table), *(f"lane{at}.{self.rig.topic(table)}" for at in range(1, self.lanes)))

    def change(self, value: bytes) -> Change:
        event = orjson.loads(value)
        payload = event["payload"]
        row = payload["row"] or payload["old"]
        committed = datetime.fromisoformat(event["created_at"]).timestamp()
        return Change(payload["op"], int(row["id"]), _number(row.get("n")), committed)


def _service(program: str, file: Path, environ: Mapping[str, str]) -> Program:
    command = [str(Path(sys.executable).with_name(program)), "--config", str(file)]
    return Program(command, file.with_name(f"{program}.log"), environ)


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


class Realtime(Tidegate):
    name: ClassVar[str] = "tidegate_realtime"
    label: ClassVar[str] = "Tidegate, realtime"
    trigger: ClassVar[Trigger] = Trigger.REALTIME


class Batch(Tidegate):
    name: ClassVar[str] = "tidegate_batch"
    label: ClassVar[str] = "Tidegate, batch"
    trigger: ClassVar[Trigger] = Trigger.BATCH
