"""The comparison: who is there, in which order, on which servers; a table, a file of results, a verdict by ratios.

    python -m bench [--size quick|usual|full] [--contestants a,b] [--workloads a,b] [--rounds n] [--servers 18,16]
                    [--check | --accept]

Sessions are interleaved, every second round backwards, so that a machine that grows slow is slow for all. A contestant
that cannot be had is named and left out. Exit 1 if Tidegate lost an event or did not run, or a ratio has got worse.
"""

import argparse
import logging
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import ratios, results, table
from bench.contestants.base import Contestant, ContestantError, Rig
from bench.contestants.debezium import Defaults, Tuned
from bench.contestants.tidegate import Batch, Realtime
from bench.figures import LATEST, QUICK
from bench.measure.consumer import delete_topics
from bench.outcome import SessionResult
from bench.session import Session
from bench.source import source_of
from bench.workloads import NAMES, Size, loads, workload
from tidegate.stack.kafka import Kafka
from tidegate.stack.postgres import Postgres, PostgresInstall
from tidegate.stack.redis import Redis

CONTESTANTS: dict[str, type[Contestant]] = {each.name: each for each in (Tuned, Realtime, Batch, Defaults)}
QUICK_WORKLOADS = ("wide",)
OTHER_SERVER_WORKLOADS = ("wide",)
"""What is run on a server that is not the newest."""
WARM_ROWS = {Size.QUICK: 10_000, Size.USUAL: 50_000, Size.FULL: 50_000}
ROUNDS = {Size.QUICK: 1, Size.USUAL: 3, Size.FULL: 3}
SERVERS = {"18": "pginstall18", "16": "pginstall"}
NEWEST = "18"

log = logging.getLogger("bench")


@dataclass(frozen=True, slots=True)
class Asked:
    size: Size
    contestants: tuple[str, ...]
    workloads: tuple[str, ...]
    rounds: int
    servers: tuple[str, ...]


def main() -> int:
    options = _options()
    asked = _asked(options)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    begun = time.monotonic()
    sessions: list[SessionResult] = []
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, running(Path(folder), asked) as field:
        for server, turn, name in order(asked):
            sessions.append(field.session(server, turn, name))
            run = results.gathered(sessions, asked.size, time.monotonic() - begun, _settings(asked))
            results.write_so_far(run)
    print(table.of(run))
    print(f"written to {results.write(run)}")
    if options.accept:
        print(f"ratios accepted: {ratios.accept(run)}")
        return 0
    worse = ratios.check(run) if options.check else []
    for line in worse:
        print(line)
    return int(bool(worse) or not results.is_sound(run))


def order(asked: Asked) -> Iterator[tuple[str, int, str]]:
    """Server, round, contestant. A server that is not the newest is visited once."""
    for server in asked.servers:
        for turn in range(asked.rounds if server == asked.servers[0] else 1):
            names = asked.contestants if turn % 2 == 0 else asked.contestants[::-1]
            yield from ((server, turn, name) for name in names)


@dataclass
class Field:
    """The servers that all sessions share."""

    folder: Path
    asked: Asked
    postgres: dict[str, Postgres]
    kafka: Kafka
    redis: Redis

    def session(self, server: str, turn: int, name: str) -> SessionResult:
        kind, postgres = CONTESTANTS[name], self.postgres[server]
        label = f"r{turn}-{name}-{server}".replace("_", "-")
        result = SessionResult(name, server, turn)
        rig = Rig(self.folder / label, label, postgres, label, self.kafka, self.redis)
        rig.folder.mkdir()
        names = self.asked.workloads if server == self.asked.servers[0] else OTHER_SERVER_WORKLOADS
        try:
            contestant = kind(rig)
        except ContestantError as error:
            log.warning("%s: %s", kind.label, error)
            result.problem = str(error)
            return result
        with source_of(postgres, label) as source:
            size = self.asked.size
            workloads = [workload(each, size) for each in names]
            Session(contestant, source, self.kafka, workloads, loads(size), WARM_ROWS[size], result).run()
        _keep_logs(rig.folder, result)
        delete_topics(self.kafka.bootstrap, contestant.topics())
        return result


@contextmanager
def running(folder: Path, asked: Asked) -> Iterator[Field]:
    folder.chmod(0o755)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a broker with 1,000 topics has some files a topic
    kafka, redis = Kafka(folder / "kafka"), Redis(folder / "redis")
    postgres = {server: _postgres(folder, server) for server in asked.servers}
    try:
        for each in (kafka, redis, *postgres.values()):
            each.start()
        yield Field(folder, asked, postgres, kafka, redis)
    finally:
        for each in (*postgres.values(), kafka, redis):
            each.stop()


def _postgres(folder: Path, server: str) -> Postgres:
    bundled = PostgresInstall.bundled()
    install = PostgresInstall(bundled.root.with_name(SERVERS[server]), bundled.companions)
    return Postgres(folder / f"postgres{server}", install=install)


def _keep_logs(folder: Path, result: SessionResult) -> None:
    """Of what went wrong; else they go with the folder."""
    if result.problem:
        kept = LATEST / "logs" / folder.name
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        for log_file in folder.glob("*.log"):
            shutil.copy(log_file, kept)
        log.warning("its logs: %s", os.path.relpath(kept))


def _settings(asked: Asked) -> dict[str, dict[str, str]]:
    found = {}
    for name in asked.contestants:
        kind = CONTESTANTS[name]
        found[name] = {"label": kind.label, **kind.versions(), **kind.settings()}
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare Tidegate with others on the same machine and WAL.")
    parser.add_argument("--size", choices=[*Size], default=Size.QUICK if QUICK else Size.USUAL)
    parser.add_argument("--contestants", default="", help=f"of {', '.join(CONTESTANTS)}; default: all")
    parser.add_argument("--workloads", default="", help=f"of {', '.join(NAMES)}; default: all, quick: wide")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--servers", default="", help="majors of PostgreSQL; default: 18,16, quick: 18")
    parser.add_argument("--check", action="store_true", help="compare the ratios with the accepted ones")
    parser.add_argument("--accept", action="store_true", help="take this run's ratios as the ones to compare with")
    return parser.parse_args()


def _asked(options: argparse.Namespace) -> Asked:
    size = Size(options.size)
    is_quick = size is Size.QUICK
    return Asked(
        size,
        _listed(options.contestants, tuple(CONTESTANTS), CONTESTANTS),
        _listed(options.workloads, QUICK_WORKLOADS if is_quick else NAMES, NAMES),
        options.rounds or ROUNDS[size],
        _listed(options.servers, (NEWEST,) if is_quick else (NEWEST, "16"), SERVERS),
    )


def _listed(given: str, default: tuple[str, ...], known: Collection[str]) -> tuple[str, ...]:
    found = tuple(filter(None, given.replace(" ", "").split(","))) or default
    unknown = [each for each in found if each not in known]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    return found


if __name__ == "__main__":
    sys.exit(main())
