"""`tidegate-reader --config pipeline.yaml`: one process, one pipeline, one of four exit codes.

0 told to stop · 1 start me again (a supervisor does, with back-off) · 2 wrong configuration · 3 a person decides.
Invariant: every failure ends here, is logged once with code and remedy, and stands in the reader's status and on
/readyz before the process is gone.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tidegate import file_pages
from tidegate.config.apart import load_apart
from tidegate.config.reloads import Reloads
from tidegate.contracts.status import State
from tidegate.errors import ExitCode, TidegateError, TransientError, classify
from tidegate.observability import logs
from tidegate.observability.health import Health
from tidegate.observability.http import serving
from tidegate.observability.tracing import open_tracing
from tidegate_reader import pipeline
from tidegate_reader.allocator import keep_freed_memory
from tidegate_reader.metrics import ReaderMetrics
from tidegate_reader.progress import Progress
from tidegate_reader.repair import eased
from tidegate_reader.reporting import Reporter
from tidegate_reader.surroundings import COMPONENTS, Surroundings

_SECRETS = ("source", "kafka", "redis", "tracing")
"""Sections whose secrets this service reads."""


def main(arguments: Sequence[str] | None = None) -> None:
    sys.exit(_run(_parse(arguments)))


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tidegate-reader", description="Writes a PostgreSQL replication stream into one raw Kafka topic."
    )
    parser.add_argument("--config", required=True, metavar="PATH", help="the pipeline.yaml")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides", help="override one setting, a.b=c"
    )
    return parser.parse_args(arguments)


def _run(arguments: argparse.Namespace) -> ExitCode:
    logs.configure("reader")
    log = logs.get("reader")
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is something to read again
        load = partial(load_apart, "reader", arguments.config, arguments.overrides, secrets=_SECRETS)
        config = load()
        logs.configure("reader", config.pipeline, level=config.log.level, style=config.log.format)
        _spare_the_collector()
        keep_freed_memory()
        file_pages.give_back()
        return asyncio.run(_serve(Reloads("reader", Path(arguments.config), config, load), log))
    except Exception as error:
        failure = most_severe(error)
        log.failure("reader_failed", failure)
        return failure.exit_code


def _spare_the_collector() -> None:
    """What is loaded stays, so it need not be walked through again and again; and what a frame is made of holds no
    cycles. With Python's own settings the collector takes a sixth of the reader's CPU."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)


async def _serve(reloads: Reloads, log: logs.Log) -> ExitCode:
    config = reloads.in_force
    progress = Progress(config.pipeline, os.getpid())
    metrics = ReaderMetrics(progress, config.required_sinks)
    health = Health(COMPONENTS)
    reporter = Reporter(config.redis, progress)
    tracing = open_tracing(config.tracing, "reader", config.pipeline, metrics.dropped_spans.add)
    around = Surroundings(config, reloads, progress, metrics, health, reporter, log, asyncio.Event(), tracing)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, around.stop.set)
    loop.add_signal_handler(signal.SIGHUP, reloads.ask)
    async with serving(config.reader.http.host, config.reader.http.port, health, metrics.all.exposition):
        reporting = asyncio.create_task(reporter.run(), name="reporting")
        try:
            return await _until_it_ends(around)
        finally:
            reporting.cancel()
            await asyncio.wait([reporting])
            await reporter.report()
            await reporter.close()
            if tracing is not None:
                tracing.close()


async def _until_it_ends(around: Surroundings) -> ExitCode:
    running = asyncio.create_task(pipeline.run(around), name="pipeline")
    stopping = asyncio.create_task(around.stop.wait(), name="stopping")
    try:
        await asyncio.wait([running, stopping], return_when=asyncio.FIRST_COMPLETED)
        if not running.done() and around.progress.state is State.STARTING:
            running.cancel()  # Nothing has begun, so nothing is to be flushed.
        await asyncio.wait([running])
        if not running.cancelled():
            running.result()
    except Exception as error:
        failure = most_severe(error)
        if around.progress.state is not State.STARTING:
            failure = eased(around.config, failure)
        around.progress.failed(failure)
        around.health.down("reader", failure.code)
        around.log.failure("reader_failed", failure, cause=_cause(error))
        return failure.exit_code
    finally:
        stopping.cancel()
    around.progress.state = State.DRAINED
    around.log.info("reader_stopped")
    return ExitCode.CLEAN


def most_severe(error: BaseException) -> TidegateError:
    """Of several that failed at once, the one that forbids the most: lost before configuration before try again."""
    if not isinstance(error, BaseExceptionGroup):
        return classify(error)
    failures = [most_severe(each) for each in error.exceptions]
    return max(failures, key=lambda each: (each.exit_code, not isinstance(each, TransientError)))


def _cause(error: BaseException) -> str:
    """Type and place of what was foreign; its text may quote values."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    place = f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}" if frame else "?"
    return f"{type(error).__name__} at {place}"


if __name__ == "__main__":
    main()
