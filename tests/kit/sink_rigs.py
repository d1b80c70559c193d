"""Every kind of sink on real servers, with a second client that tells what has arrived: what the contract suite drives.

A rig says what a reader of its target sees: the rows as they stand in the end, and the events in their order where the
target keeps them.
"""

import gzip
import json
import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pyarrow as pa
from kit.frames import GENERATION, RawLog
from kit.pipelines import checked, document, secrets_of
from kit.second_client import committed
from kit.topics import make_topic

from tidegate.config.pipeline import PipelineConfig
from tidegate.contracts.cursor import Cursor
from tidegate.contracts.dead_letter import DeadLetter, decode_dead_letter
from tidegate.contracts.frame import Frame, decode_frame
from tidegate.contracts.names import dead_letter_topic
from tidegate.events import Operation
from tidegate_processor.sinks.base import Sink
from tidegate_processor.sinks.registry import cursor_of, make_sink, make_whole_sink
from tidegate_processor.sinks.stdout.config import STDOUT_VARIABLE
from tidegate_processor.speaking import Speak, nobody_listens

SINK = "events"
TARGET_PASSWORD = "TIDEGATE_TEST_TARGET_PASSWORD"
NOWHERE = "127.0.0.1:9"
ROOT = Path(__file__).resolve().parents[2]


class Rig(ABC):
    type: ClassVar[str]
    options: ClassVar[dict[str, Any]] = {}

    def __init__(self, prefix: str, kafka: str, redis_url: str, folder: Path) -> None:
        self.prefix, self.kafka, self.redis_url, self.folder = prefix, kafka, redis_url, folder
        self.config = self.configured()
        make_topic(kafka, self.config.raw_topic.name)

    def configured(self, kafka: str = "", **options: Any) -> PipelineConfig:
        sinks = [{"name": SINK, "type": self.type, "options": {**self.options, **self.more_options(), **options}}]
        os.environ.update(self.environment())
        values = document(self.prefix, kafka=kafka or self.kafka, redis_url=self.redis_url, sinks=sinks)
        return checked(values, {**os.environ, **secrets_of(redis_url=self.redis_url)})

    def more_options(self) -> dict[str, Any]:
        return {}

    def make(self, config: PipelineConfig | None = None, speak: Speak = nobody_listens) -> Sink:
        config = config or self.config
        return make_sink(config, config.sink(SINK), speak)

    def cursor(self) -> Cursor | None:
        """As the driver looks at it."""
        return cursor_of(self.config, self.config.sink(SINK))

    def unreachable(self) -> Sink:
        return self.make(self.configured(kafka=NOWHERE))

    @abstractmethod
    def rows(self) -> dict[int, str | None]:
        """By key, as a reader of the target has them in the end."""

    def ids(self) -> list[str] | None:
        """Of the events in their order; None where the target keeps rows."""
        return None

    def letters(self) -> list[DeadLetter]:
        return [decode_dead_letter(value) for value in committed(self.kafka, dead_letter_topic(self.prefix))]

    def environment(self) -> dict[str, str]:
        """What a holder in another process needs."""
        return {}


class EventRig(Rig):
    @abstractmethod
    def values(self) -> Iterable[bytes]:
        """Of what a reader has received, in order."""

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(value) for value in self.values()]

    def ids(self) -> list[str]:
        return [event["id"] for event in self.events()]

    def rows(self) -> dict[int, str | None]:
        rows: dict[int, str | None] = {}
        for event in self.events():
            payload, operation = event["payload"], event["operation"]
            if operation == Operation.TRUNCATE:
                rows.clear()
                continue
            if payload["old"] is not None:
                rows.pop(payload["old"]["id"], None) if payload["row"] is None or _moves(payload) else None
            if payload["row"] is not None:
                rows[payload["row"]["id"]] = payload["row"].get("note", rows.get(payload["row"]["id"]))
        return rows


class KafkaTopicsRig(EventRig):
    type = "kafka_topics"

    def values(self) -> Iterable[bytes]:
        return committed(self.kafka, f"{self.prefix}.public.orders")


class WholeRig(KafkaTopicsRig):
    """As the driver opens it, who speaks for all writers."""

    def make(self, config: PipelineConfig | None = None, speak: Speak = nobody_listens) -> Sink:
        config = config or self.config
        return make_whole_sink(config, config.sink(SINK))


class AtLeastOnceRig(KafkaTopicsRig):
    options: ClassVar[dict[str, Any]] = {"delivery": "at_least_once"}


class StdoutRig(EventRig):
    type = "stdout"

    @property
    def output(self) -> Path:
        return self.folder / "stdout"

    def make(self, config: PipelineConfig | None = None) -> Sink:
        """On a file in place of what the driver has."""
        with _environment(self.environment()):
            return super().make(config)

    def make_as_it_is(self) -> Sink:
        return super().make()

    def values(self) -> Iterable[bytes]:
        return self.output.read_bytes().splitlines()

    def environment(self) -> dict[str, str]:
        self.output.touch()
        return {STDOUT_VARIABLE: str(self.output)}


class FileRig(EventRig):
    type = "file"

    def more_options(self) -> dict[str, Any]:
        return {"path": str(self.folder / "files")}

    def values(self) -> Iterable[bytes]:
        """Of complete files, and of what the manifest says of the one that is being written."""
        manifest = json.loads((self.folder / f"files/.{self.prefix}.{SINK}.manifest").read_bytes())
        for path in sorted((self.folder / "files").glob(f"{self.prefix}.*")):
            data = path.read_bytes()
            if path.suffix == ".part":
                assert f".{manifest['number']:012d}." in path.name
                data = data[: manifest["length"]]
            yield from _unpacked(path, data).splitlines()

    def unreachable(self) -> Sink:
        (self.folder / "a file").touch()
        return self.make(self.configured(path=str(self.folder / "a file/files")))


class GzipRig(FileRig):
    options: ClassVar[dict[str, Any]] = {"compression": "gzip", "rotate_bytes": "4KiB"}


class ZstdRig(FileRig):
    options: ClassVar[dict[str, Any]] = {"compression": "zstd"}


class PgTableRig(Rig):
    type = "pg_table"

    def __init__(self, prefix: str, kafka: str, redis_url: str, folder: Path, postgres: Any) -> None:
        self.postgres = postgres
        self.dsn = postgres.ensure_database(f"{prefix}_target")
        super().__init__(prefix, kafka, redis_url, folder)

    def more_options(self) -> dict[str, Any]:
        return {"dsn": self.plain_dsn(self.postgres.port), "password": f"${{env:{TARGET_PASSWORD}}}"}

    def plain_dsn(self, port: int) -> str:
        return f"postgresql://{self.postgres.user}@{self.postgres.host}:{port}/{self.prefix}_target"

    def make(self, config: PipelineConfig | None = None, speak: Speak = nobody_listens) -> Sink:
        os.environ.update(self.environment())
        return super().make(config, speak)

    def environment(self) -> dict[str, str]:
        return {TARGET_PASSWORD: self.postgres.password}

    def unreachable(self) -> Sink:
        return self.make(self.configured(dsn=self.plain_dsn(9)))

    def ask(self, query: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(query, parameters)
            return cursor.fetchall() if cursor.description else []

    def rows(self) -> dict[int, str | None]:
        if self.ask("SELECT to_regclass('public.orders')") == [(None,)]:
            return {}
        return dict(self.ask("SELECT id, note FROM public.orders ORDER BY id"))


RIGS: dict[str, type[Rig]] = {
    "kafka_topics": KafkaTopicsRig,
    "kafka_topics, all writers": WholeRig,
    "kafka_topics, at least once": AtLeastOnceRig,
    "stdout": StdoutRig,
    "file": FileRig,
    "file, gzip": GzipRig,
    "file, zstd": ZstdRig,
    "pg_table": PgTableRig,
}


def wal_frames(log: RawLog) -> list[Frame]:
    return [decode_frame(value) for value in log.frames[1:]]


def cursor_behind(frame: Frame, incarnation: int = 1) -> Cursor:
    header = frame.header
    return Cursor(
        generation=GENERATION.id,
        topic_id="topic",
        epoch=header.epoch,
        epoch_nonce=header.epoch_nonce.hex(),
        seq=header.seq,
        next_offset=header.seq + 1,
        position=header.last,
        safe_lsn=header.safe_lsn,
        config_epoch="c",
        incarnation=incarnation,
    )


@contextmanager
def holder(rig: Rig, log: RawLog, until: str) -> "Iterator[subprocess.Popen[str]]":
    """Another process that opens the sink, writes and stands where it was told to: `written` or `committed`."""
    config, frames = rig.folder / "holder.json", rig.folder / "holder.frames"
    config.write_text(rig.config.model_dump_json(by_alias=True))
    frames.write_bytes(b"".join(len(value).to_bytes(4, "big") + value for value in log.frames))
    paths = os.pathsep.join([str(ROOT / "tests"), *sys.path])
    environment = {**os.environ, **rig.environment(), **secrets_of(redis_url=rig.redis_url), "PYTHONPATH": paths}
    command = [sys.executable, "-m", "kit.sink_holder", str(config), str(frames), until]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == until
        yield process
    finally:
        process.kill()
        process.communicate()


def _moves(payload: dict[str, Any]) -> bool:
    return payload["row"]["id"] != payload["old"]["id"]


def _unpacked(path: Path, data: bytes) -> bytes:
    if ".gz" in path.suffixes:
        return gzip.decompress(data)
    if ".zst" in path.suffixes:
        return bytes(pa.input_stream(pa.BufferReader(data), compression="zstd").read()) if data else b""
    return data


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)
