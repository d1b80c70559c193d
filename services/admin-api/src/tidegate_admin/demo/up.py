"""`tidegate up`: servers and fleet of one machine until Ctrl-C.

With a pipeline file: Kafka and Redis are embedded, the source stays the file's own. Without one: the demo's shop, with
an embedded PostgreSQL, and nobody who writes but you.
"""

import asyncio
import os
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psycopg
from rich.console import Console

from tidegate.config.load import load_pipeline
from tidegate.errors import ExitCode, StreamError, TransientError
from tidegate.stack.kafka import Kafka
from tidegate.stack.postgres import Postgres
from tidegate.stack.redis import Redis
from tidegate.stack.server import Server, ServerState
from tidegate.stack.supervisor import ServiceState, ServiceStatus
from tidegate_admin.demo import screen
from tidegate_admin.demo.consumer import PARTITIONS
from tidegate_admin.demo.fleet import Fleet, FleetPlan, log_of
from tidegate_admin.demo.place import Place, shop_pipeline
from tidegate_admin.demo.shop import SCHEMA, TABLES

_WATCH_SECONDS = 0.2


@dataclass(slots=True)
class _Servers:
    postgres: Postgres | None
    kafka: Kafka
    redis: Redis

    @property
    def all(self) -> Sequence[Server]:
        return [server for server in (self.postgres, self.kafka, self.redis) if server]


async def run_up(config: Path | None, place: Place, out: Console, err: Console) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    with place.held(), ExitStack() as running:
        servers = _make_servers(place, err, with_postgres=config is None)
        plan = _plan(config, place, servers)
        admin = load_pipeline(plan.config, plan.overrides, secrets=("source", "redis")).admin.http
        fleet = Fleet(plan, observe=lambda status: _tell(err, status))
        for server in reversed(servers.all):
            running.callback(server.stop)
        await asyncio.to_thread(_start, servers)
        running.callback(fleet.stop)
        fleet.start_early()
        fleet.start_reader()
        _announce(out, place, servers, str(admin))
        await _watch(fleet, place, stop)
        err.print("stopping")
    return ExitCode.CLEAN


def _make_servers(place: Place, err: Console, *, with_postgres: bool) -> _Servers:
    def progress(name: str, state: ServerState, seconds: float) -> None:
        if state in (ServerState.READY, ServerState.FAILED):
            err.print(screen.startup_line(name, state, seconds), highlight=False)

    servers = _Servers(
        Postgres(place.root / "postgres", progress=progress) if with_postgres else None,
        Kafka(place.root / "kafka", progress=progress),
        Redis(place.root / "redis", progress=progress),
    )
    ports = place.ports({server.name: 0 for server in servers.all})
    for server in servers.all:
        server.port = ports[server.name]
        server.folder.mkdir(mode=0o755, exist_ok=True)
    _ = servers.redis.password, servers.postgres and servers.postgres.password  # services read them from their files
    return servers


def _plan(config: Path | None, place: Place, servers: _Servers) -> FleetPlan:
    """Secrets of a given file may stand in this environment, so its services inherit it."""
    if config is None:
        ports = place.ports({"postgres": 0, "kafka": 0, "redis": 0, "reader": 0, "processor": 0, "admin": 8080})
        ports |= {server.name: server.port for server in servers.all}
        return FleetPlan(place, place.write_pipeline(shop_pipeline(place, ports, TABLES, PARTITIONS)))
    overrides = (
        f"kafka.bootstrap={servers.kafka.bootstrap}",
        f"redis.url=redis://{servers.redis.host}:{servers.redis.port}/0",
        f"redis.password=${{file:{servers.redis.folder / 'redis.password'}}}",
    )
    return FleetPlan(place, config.absolute(), overrides, dict(os.environ))


def _start(servers: _Servers) -> None:
    with ThreadPoolExecutor(len(servers.all)) as pool:
        for start in [pool.submit(server.start) for server in servers.all]:
            start.result()
    if servers.postgres:
        try:
            with psycopg.connect(servers.postgres.ensure_database("shop"), autocommit=True) as connection:
                connection.execute(SCHEMA)
        except psycopg.Error as error:
            raise TransientError(
                f"the shop's tables could not be made: {type(error).__name__}", code="UP_SCHEMA_FAILED"
            ) from error


async def _watch(fleet: Fleet, place: Place, stop: asyncio.Event) -> None:
    while not stop.is_set():
        for service in fleet.status():
            if service.state in (ServiceState.DOWN, ServiceState.DONE):
                raise StreamError(
                    f"the {service.name} ended with {service.last_exit}",
                    code="UP_SERVICE_DOWN",
                    remedy=f"Read {log_of(place, service.name)}.",
                )
        try:
            await asyncio.wait_for(stop.wait(), _WATCH_SECONDS)
        except TimeoutError:
            continue


def _tell(err: Console, status: ServiceStatus) -> None:
    err.print(f"{status.name} {status.state}", highlight=False)


def _announce(out: Console, place: Place, servers: _Servers, admin: str) -> None:
    lines = [f"Admin page   http://{admin}/", f"Kafka        {servers.kafka.bootstrap}"]
    if servers.postgres:
        postgres = servers.postgres
        lines.append(f"PostgreSQL   postgresql://{postgres.user}@{postgres.host}:{postgres.port}/shop")
        lines.append(f"  password   in {postgres.folder / 'postgres.password'}")
    out.print("\n".join([*lines, f"Logs         {place.logs}", "Ctrl-C stops it."]), highlight=False, soft_wrap=True)
