"""`python -m tidegate_admin.demo prepare|write|tail`: the shop's parts, each a process of its own, for containers.

prepare makes the tables and their publication, and ends · write lives the shop's life until it is told to stop ·
tail prints what arrives on the shop's topics. Nobody compares what was written with what arrived: `tidegate demo` does.
Invariant: a password is read from where its reference says, and never stands in an argument.
"""

import argparse
import asyncio
import signal
import sys
import threading
from collections.abc import Sequence
from random import Random

import psycopg

from tidegate.config.secret import Secret
from tidegate.errors import ConfigError, ExitCode, TidegateError
from tidegate_admin.demo.consumer import Consumer
from tidegate_admin.demo.ledger import Event, Ledger
from tidegate_admin.demo.shop import TABLES, Change, Shop
from tidegate_admin.demo.writer import Writer

PUBLICATION = "shop"
_HAS_PUBLICATION = "SELECT FROM pg_publication WHERE pubname = %s"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        match options.part:
            case "prepare":
                prepare(_dsn(options))
            case "write":
                write(_dsn(options), options.slot, options.rate)
            case _:
                asyncio.run(tail(options.bootstrap, options.pipeline))
    except TidegateError as error:
        print(f"{error}. {error.remedy}", file=sys.stderr)
        return error.exit_code
    except psycopg.Error as error:
        print(f"the shop's database refused: {type(error).__name__} {error.sqlstate or ''}", file=sys.stderr)
        return ExitCode.RETRY
    return ExitCode.CLEAN


def prepare(dsn: str) -> None:
    """May run again: what is there stays."""
    with psycopg.connect(dsn, autocommit=True, connect_timeout=5) as connection:
        cursor = connection.cursor()
        Shop(Random(0)).open(cursor)  # noqa: S311 - a shop's whims are no secret
        if cursor.execute(_HAS_PUBLICATION, [PUBLICATION]).fetchone() is None:
            cursor.execute(f"CREATE PUBLICATION {PUBLICATION} FOR TABLE {', '.join(TABLES)}")
    print(f"publication {PUBLICATION}: {', '.join(TABLES)}", flush=True)


def write(dsn: str, slot: str, changes_a_second: float) -> None:
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    writer = Writer(dsn, slot, _NoBooks(), changes_a_second=changes_a_second)
    writer.start()
    while not stopping.wait(1.0) and writer.failure is None:
        pass
    writer.stop()
    if writer.failure:
        raise writer.failure


async def tail(bootstrap: str, pipeline: str) -> None:
    topics = [f"{pipeline}.public.{table}" for table in TABLES]
    loop = asyncio.get_running_loop()
    reading = asyncio.create_task(Consumer(bootstrap, topics, _show).run(), name="tail")
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, reading.cancel)
    await asyncio.wait([reading])
    if not reading.cancelled():
        reading.result()


class _NoBooks(Ledger):
    """Nobody reads here what was delivered, so what was written is not kept."""

    def enter(self, xid: int, changes: Sequence[Change]) -> None:
        pass

    def rolled_back(self, xid: int) -> None:
        pass


def _show(event: Event) -> None:
    change = event.change
    key = ",".join(str(part) for part in change.key)
    print(
        f"{change.operation:8} {change.table}({key})  transaction {event.xid}.{event.seq}  "
        f"{event.latency_seconds * 1000:.0f} ms after its commit",
        flush=True,
    )


def _dsn(options: argparse.Namespace) -> str:
    secret = Secret.from_text(options.password)
    if secret is None:
        raise ConfigError(
            "--password is no reference to a secret",
            code="DEMO_PASSWORD",
            remedy="Write ${env:NAME} or ${file:/absolute/path}.",
        )
    return psycopg.conninfo.make_conninfo(options.dsn, password=secret.reveal())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tidegate_admin.demo", description="The demo shop's parts.")
    parser.add_argument("part", choices=("prepare", "write", "tail"))
    parser.add_argument("--dsn", default="postgresql://shop@postgres:5432/shop")
    parser.add_argument("--password", default="${file:/run/tidegate/shop.password}", help="a reference, never a value")
    parser.add_argument("--slot", default="tidegate_shop", help="write waits until this slot exists")
    parser.add_argument("--rate", type=float, default=5.0, help="row changes a second")
    parser.add_argument("--bootstrap", default="kafka:9092")
    parser.add_argument("--pipeline", default="shop")
    return parser


if __name__ == "__main__":
    sys.exit(main())
