"""Servers, proxies and services of one machine: PostgreSQL, Kafka and Redis once, a pipeline as often as needed.

    writers, witness, oracles ──directly──▶ servers ◀──proxies──  reader, processor

Invariant: the harness never comes through a proxy, so what it sees is what the servers hold; `close` leaves no process.
"""

import shutil
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psycopg
import yaml
from chaos.fleet.broker import ProxiedKafka
from chaos.fleet.keeper import Keeper
from chaos.fleet.links import Link, Links, python_path
from chaos.fleet.memory import MemoryLimit
from chaos.fleet.tables import SCHEMA
from kit.fleet import spark_jars
from kit.pipelines import document, secrets_of
from kit.postgres_versions import binaries
from kit.wait import wait

from tidegate.failpoints import VARIABLE, Failpoint
from tidegate.lsn import Lsn, parse_lsn
from tidegate.stack.jvm import find_java
from tidegate.stack.postgres import Postgres, PostgresInstall
from tidegate.stack.process import Command
from tidegate.stack.redis import Redis

SINK = "events"
MAJOR = "18"
# The largest rows of the load do not fit: they become dead letters.
_OPTIONS: Mapping[str, object] = {"partitions": 2, "topic_config": {"max.message.bytes": "1000000"}}
# Small frames, many boundaries; and pieces of tables that are as small as they may be.
_SETTINGS = {"raw_topic": {"max_frame": "16KiB"}, "snapshot": {"transaction": "100ms"}}
_START_SECONDS = 120.0
# Commits wait for the write, so that what a writer was told survives a killed server; no disk is ever pulled out.
_POSTGRES = {"synchronous_commit": "on", "wal_keep_size": "0", "max_wal_size": "64MB", "checkpoint_timeout": "30s"}


class ClockedPostgres(Postgres):
    """One whose environment may be added to, before it starts."""

    added: Mapping[str, str] = {}

    def command(self) -> Command:
        return replace(super().command(), environment=self.added)


class Servers:
    def __init__(self, folder: Path, major: str = MAJOR) -> None:
        self.folder = folder
        self.links = Links(folder)
        install = PostgresInstall(binaries(major))  # the bundled one has no test_decoding
        self.postgres = ClockedPostgres(folder / "postgres", install=install, fsync=False, settings=_POSTGRES)
        self.kafka = ProxiedKafka(folder / "kafka", self.links.ports)
        self.redis = Redis(folder / "redis", fsync=False)

    def start(self) -> None:
        self.folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        with ThreadPoolExecutor(3) as pool:
            for started in [pool.submit(server.start) for server in (self.postgres, self.kafka, self.redis)]:
                started.result()
        self.links.start(
            {
                Link.READER_POSTGRES: self.postgres.port,
                Link.READER_KAFKA: self.kafka.ports[Link.READER_KAFKA],
                Link.READER_REDIS: self.redis.port,
                Link.PROCESSOR_KAFKA: self.kafka.ports[Link.PROCESSOR_KAFKA],
                Link.PROCESSOR_REDIS: self.redis.port,
            }
        )

    def stop(self) -> None:
        self.links.stop()
        with ThreadPoolExecutor(3) as pool:
            for stopped in [pool.submit(server.stop) for server in (self.postgres, self.kafka, self.redis)]:
                stopped.result()


class Rig:
    """One pipeline on these servers."""

    def __init__(
        self,
        servers: Servers,
        pipeline: str,
        environment: Mapping[str, str],
        *,
        settings: Mapping[str, object] | None = None,
        options: Mapping[str, object] | None = None,
        writers: int = 1,
    ) -> None:
        """`writers` of its lane; several make it one of micro-batches."""
        self._settings, self._options = settings or _SETTINGS, _OPTIONS | dict(options or {})
        self._lane = {"trigger": "batch", "writers": writers} if writers > 1 else {}
        self.servers, self.links, self.pipeline = servers, servers.links, pipeline
        self.folder = servers.folder / pipeline
        self.slot = f"tidegate_{pipeline}"
        self.failpoints = self.folder / "failpoints"
        self.limits: dict[str, MemoryLimit] = {}
        for folder in (self.folder, self.failpoints, self.folder / "tmp"):
            folder.mkdir(mode=0o755, exist_ok=True)
        self.dsn = servers.postgres.ensure_database(pipeline)
        self._given = self._environment() | dict(environment)
        self.reader = self._keeper("reader", self._given)
        self.processor = self._keeper("processor", self._given)

    def start(self) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as link:
            link.execute(SCHEMA)  # type: ignore[arg-type]
        self.processor.start()
        self.reader.start()
        wait(lambda: self.confirmed() > 0, _START_SECONDS, "the reader has made its slot")

    def close(self) -> None:
        self.links.heal()
        self.reader.end()
        self.processor.end()
        for limit in self.limits.values():
            limit.remove()
        self.limits.clear()
        shutil.rmtree(self.folder / "tmp", ignore_errors=True)

    def drop(self) -> None:
        """Its slots, so that the server keeps no WAL for them."""
        with psycopg.connect(self.servers.postgres.dsn(), autocommit=True) as link:
            link.execute(
                "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = %s AND active",
                [self.pipeline],
            )
            active = "SELECT count(*) FROM pg_replication_slots WHERE database = %s AND active"
            wait(lambda: link.execute(active, [self.pipeline]).fetchone() == (0,), 20, "the slots are let go")
            link.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s",
                [self.pipeline],
            )

    def limit_memory(self, keeper: Keeper, most_bytes: int) -> None:
        """Of those that start from now on, with all they start."""
        limit = self.limits[keeper.name] = MemoryLimit(f"{self.pipeline}-{keeper.name}", most_bytes)
        keeper.within = limit.within

    def arm(self, point: Failpoint, action: str) -> None:
        part = self.failpoints / f".{point}"
        part.write_text(action)
        part.replace(self.failpoints / point)

    def disarm(self, point: Failpoint) -> None:
        (self.failpoints / point).unlink(missing_ok=True)

    def is_armed(self, point: Failpoint) -> bool:
        return (self.failpoints / point).exists()

    def processes(self) -> dict[str, int]:
        return {each.name: each.pid for each in (self.reader, self.processor) if each.pid is not None}

    def confirmed(self) -> Lsn:
        row = self.sql("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s", self.slot)
        return parse_lsn(row[0][0]) if row and row[0][0] else Lsn(0)

    def sql(self, query: str, *values: object) -> list[tuple[str, ...]]:
        with psycopg.connect(self.dsn, autocommit=True, connect_timeout=3) as link:
            found = link.execute(query, values or None)  # type: ignore[arg-type]
            return found.fetchall() if found.description else []

    def second_reader(self) -> Keeper:
        return self._keeper("reader", self._given, "second", ("reader.http=127.0.0.1:0",))

    def _keeper(
        self, name: str, environment: Mapping[str, str], alias: str = "", overrides: Sequence[str] = ()
    ) -> Keeper:
        ports = self.links.ports
        source = f"postgresql://{self.servers.postgres.user}@127.0.0.1:{ports[Link.READER_POSTGRES]}/{self.pipeline}"
        kafka, redis = (
            (Link.READER_KAFKA, Link.READER_REDIS) if name == "reader" else (Link.PROCESSOR_KAFKA, Link.PROCESSOR_REDIS)
        )
        overrides = (
            *overrides,
            f"source.dsn={source}",
            f"kafka.bootstrap=127.0.0.1:{ports[kafka]}",
            f"redis.url=redis://127.0.0.1:{ports[redis]}/0",
        )
        argv = [str(Path(sys.executable).with_name(f"tidegate-{name}")), "--config", str(self._config())]
        for override in overrides:
            argv += ["--set", override]
        return Keeper(alias or name, argv, environment, self.folder)

    def _config(self) -> Path:
        file = self.folder / "pipeline.yaml"
        if not file.exists():
            values = document(
                self.pipeline,
                kafka=self.servers.kafka.bootstrap,
                redis_url=self.servers.redis.url,
                postgres=self.dsn,
                sinks=[{"name": SINK, "type": "kafka_topics", "options": self._options, **self._lane}],
                **self._settings,
            )
            values["source"]["heartbeat"] = {"interval": "2s"}
            file.write_text(yaml.safe_dump(values))
        return file

    def _environment(self) -> dict[str, str]:
        scratch = str(self.folder / "tmp")
        return {
            **secrets_of(redis_url=self.servers.redis.url, postgres=self.dsn),
            **spark_jars(),
            "JAVA_HOME": str(find_java().resolve().parent.parent),
            "SPARK_LOCAL_DIRS": scratch,
            "TMPDIR": scratch,
            "PYTHONPATH": python_path(),
            VARIABLE: str(self.failpoints),
        }
