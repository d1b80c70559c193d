"""The reader's process around its pipeline: signals, its page of health and metrics, its status, its end."""

from __future__ import annotations

import asyncio
import gc
import os
import signal

from tidegate import file_pages
from tidegate.config.reloads import Reloads
from tidegate.contracts.status import State
from tidegate.errors import ExitCode
from tidegate.observability import logs
from tidegate.observability.health import Health
from tidegate.observability.http import serving
from tidegate.observability.tracing import open_tracing
from tidegate_reader import pipeline
from tidegate_reader.allocator import keep_freed_memory
from tidegate_reader.failures import cause_of, most_severe
from tidegate_reader.metrics import ReaderMetrics
from tidegate_reader.progress import Progress
from tidegate_reader.repair import eased
from tidegate_reader.reporting import Reporter
from tidegate_reader.surroundings import COMPONENTS, Surroundings


def run(reloads: Reloads, log: logs.Log) -> ExitCode:
    _spare_the_collector()
    keep_freed_memory()
    file_pages.give_back()
    return asyncio.run(_serve(reloads, log))


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
    finally:
        stopping.cancel()
    error = None if running.cancelled() else running.exception()
    if error is not None:
        return _failed(around, error)
    around.progress.state = State.DRAINED
    around.log.info("reader_stopped")
    return ExitCode.CLEAN


def _failed(around: Surroundings, error: BaseException) -> ExitCode:
    failure = most_severe(error)
    if around.progress.state is not State.STARTING:
        failure = eased(around.config, failure)
    around.progress.failed(failure)
    around.health.down("reader", failure.code)
    around.log.failure("reader_failed", failure, cause=cause_of(error))
    return failure.exit_code
