"""Debezium in Kafka Connect standalone, beside the same broker: as shipped, and tuned as its own documentation advises.

Its jars are fetched at run time into the cache, each by its checksum, and are no part of this repository. Connect's JVM
gets the options of Kafka's own scripts (bin/connect-standalone.sh, bin/kafka-run-class.sh). JSON comes without schemas
in both, as Tidegate's does: with them each event is several times as long.
"""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import orjson
from kit.pipelines import free_port
from kit.wait import DeadlinePassedError, wait

from bench.contestants.base import PUBLICATION, Change, Contestant, ContestantError, Program, Rig
from tidegate.errors import TidegateError
from tidegate.stack.jars import ensure
from tidegate.stack.jvm import find_java
from tidegate.stack.kafka import LOGGING
from tidegate.stack.server import write_private

JARS = Path(__file__).with_name("debezium.toml")
VERSION = "3.6.1.Final"
CONNECTOR = "bench"
REST_SECONDS = 60.0
HEAP = ("-Xms256M", "-Xmx2G")
JVM = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
_JSON = "org.apache.kafka.connect.json.JsonConverter"
# config/connect-standalone.properties of Kafka, but for the schemas.
WORKER = {
    "key.converter": _JSON,
    "key.converter.schemas.enable": "false",
    "value.converter": _JSON,
    "value.converter.schemas.enable": "false",
    "offset.flush.interval.ms": "10000",
}


class Debezium(Contestant):
    tuning: ClassVar[Mapping[str, str]]

    def __init__(self, rig: Rig) -> None:
        super().__init__(rig)
        self._port = free_port()
        worker, connector, logging = (rig.folder / name for name in ("worker", "connector", "log4j2"))
        worker.write_text(_properties(self._worker()))
        write_private(connector, _properties(self._connector()))
        logging.with_suffix(".properties").write_text(LOGGING)
        try:
            java, jars = find_java(), ":".join(str(jar) for jar in ensure("debezium", lock=JARS))
        except TidegateError as error:
            raise ContestantError(f"Java or its jars cannot be had: {error}") from error
        program = "org.apache.kafka.connect.cli.ConnectStandalone"
        log = f"-Dlog4j2.configurationFile={logging.with_suffix('.properties')}"
        command = [str(java), *HEAP, *JVM, log, "-cp", jars, program, str(worker), str(connector)]
        self._program = Program(command, rig.folder / "connect.log")

    def _worker(self) -> dict[str, str]:
        return {
            **WORKER,
            "bootstrap.servers": self.rig.kafka.bootstrap,
            "offset.storage.file.filename": str(self.rig.folder / "offsets"),
            "listeners": f"http://127.0.0.1:{self._port}",
            "plugin.discovery": "only_scan",
        }

    def _connector(self) -> dict[str, str]:
        source = urlsplit(self.rig.postgres.dsn(self.rig.database))
        return {
            "name": CONNECTOR,
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "tasks.max": "1",
            "database.hostname": source.hostname or "",
            "database.port": str(source.port),
            "database.user": source.username or "",
            "database.password": source.password or "",
            "database.dbname": self.rig.database,
            "topic.prefix": self.rig.name,
            "plugin.name": "pgoutput",
            "slot.name": self.rig.slot,
            "publication.name": PUBLICATION,
            "publication.autocreate.mode": "disabled",
            "snapshot.mode": "no_data",
            **self.tuning,
        }

    @classmethod
    def settings(cls) -> Mapping[str, str]:
        return {"JVM": " ".join((*HEAP, *JVM)), "snapshot.mode": "no_data", "schemas.enable": "false", **cls.tuning}

    @classmethod
    def versions(cls) -> Mapping[str, str]:
        return {"debezium-connector-postgres": VERSION, "connect-runtime": "4.3.1"}

    def start(self) -> None:
        self._program.start()

    def pause(self) -> None:
        self._ask("PUT", "/stop")
        self._await_state("STOPPED")

    def resume(self) -> None:
        self._ask("PUT", "/resume")

    def stop(self) -> None:
        self._program.stop()

    def kill(self) -> None:
        self._program.kill()

    def pids(self) -> Sequence[int]:
        return [pid for pid in (self._program.pid,) if pid is not None]

    def check(self) -> None:
        self._program.check()

    def topics(self) -> Sequence[str]:
        return (f"{self.rig.name}.",)

    def change(self, value: bytes) -> Change:
        event = orjson.loads(value)
        row: dict[str, Any] = event["after"] or event["before"]
        is_delete = event["after"] is None
        return Change(event["op"], row["id"], None if is_delete else row["n"], event["source"]["ts_us"] / 1e6)

    def _ask(self, method: str, path: str) -> Any:
        """Connect's REST: docs of Kafka, Connect, REST API."""
        url = f"http://127.0.0.1:{self._port}/connectors/{CONNECTOR}{path}"
        deadline = time.monotonic() + REST_SECONDS
        while True:
            try:
                with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=20) as answer:
                    return json.loads(answer.read() or b"null")
            except (urllib.error.URLError, ConnectionError) as error:
                if time.monotonic() > deadline:
                    raise ContestantError(f"Connect does not answer {method} {path}: {error}") from error
                time.sleep(0.1)

    def _await_state(self, wanted: str) -> None:
        try:
            wait(lambda: self._ask("GET", "/status")["connector"]["state"] == wanted, REST_SECONDS, wanted)
        except DeadlinePassedError as error:
            raise ContestantError(str(error)) from error


class Defaults(Debezium):
    name: ClassVar[str] = "debezium_defaults"
    label: ClassVar[str] = "Debezium, defaults"
    tuning: ClassVar[Mapping[str, str]] = {}


class Tuned(Debezium):
    """For latency and for throughput at once: what its connector page and Connect's producer settings offer."""

    name: ClassVar[str] = "debezium_tuned"
    label: ClassVar[str] = "Debezium, tuned"
    tuning: ClassVar[Mapping[str, str]] = {
        "poll.interval.ms": "5",
        "max.batch.size": "16384",
        "max.queue.size": "65536",
        "producer.override.linger.ms": "0",
        "producer.override.batch.size": "524288",
        "producer.override.compression.type": "lz4",
        "producer.override.buffer.memory": "134217728",
    }


def _properties(values: Mapping[str, str]) -> str:
    escaped = ((name, value.replace("\\", "\\\\")) for name, value in values.items())
    return "".join(f"{name}={value}\n" for name, value in escaped)
