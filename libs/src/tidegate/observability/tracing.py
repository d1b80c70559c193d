"""Spans on their way to a collector: a bounded queue, and a thread that empties it.

whoever works ─give─▶ queue, or dropped where it is full ─thread─▶ collector, or dropped where it takes none

Invariant: giving spans never waits and never fails, whatever the collector does. What does not arrive is counted, and
told once in a while. Nothing of OpenTelemetry is imported unless a collector is configured.
"""

from __future__ import annotations

import importlib.util
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.errors import ConfigError
from tidegate.observability import logs

if TYPE_CHECKING:
    from tidegate.config.tracing import TracingConfig

_EXPORTER = "opentelemetry.exporter.otlp.proto.http"

MOST_WAITING = 4096
"""About 3 MB."""
BATCH_SPANS = 512
EVERY_SECONDS = 0.5
TELL_AGAIN_SECONDS = 300.0
CLOSE_SECONDS = 0.3
"""A stop may take five seconds in all, and spans are not worth one of them."""


@dataclass(frozen=True, slots=True)
class Span:
    """One that has ended. Attributes are names, numbers and LSNs, never values of a row."""

    name: str
    trace_id: int
    span_id: int
    parent_id: int
    """0: it is the trace's first."""
    start: int
    """Unix nanoseconds, as `end`."""
    end: int
    attributes: Mapping[str, str | int]


class Tracing:
    def __init__(
        self,
        send: Callable[[Sequence[Span]], bool],
        on_drop: Callable[[int], None] = lambda _: None,
        *,
        every_seconds: float = EVERY_SECONDS,
    ) -> None:
        """`send` says whether they have arrived; it may take its time. `on_drop` is called from several threads."""
        self.dropped = 0
        self._send, self._on_drop, self._every_seconds = send, on_drop, every_seconds
        self._waiting: deque[Span] = deque()
        self._counting = threading.Lock()
        self._told_at = float("-inf")
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tracing", daemon=True)
        self._thread.start()

    def give(self, spans: Sequence[Span]) -> None:
        if len(self._waiting) + len(spans) > MOST_WAITING:
            self.drop(len(spans), "more were made than the collector takes")
        else:
            self._waiting.extend(spans)

    def drop(self, count: int, why: str) -> None:
        with self._counting:
            self.dropped += count
            is_news = time.monotonic() - self._told_at > TELL_AGAIN_SECONDS
            if is_news:
                self._told_at = time.monotonic()
        self._on_drop(count)
        if is_news:
            logs.get("tracing").warning("spans_dropped", why=why, dropped=self.dropped)

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """What waits is sent if that can be done in this time, else it is lost with the process."""
        self._closing.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        while not self._closing.wait(self._every_seconds):
            self._export()
        self._export()

    def _export(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(BATCH_SPANS, len(self._waiting)))]
            if not self._send(batch):
                self.drop(len(batch), "the collector did not take them")
                return


def open_tracing(
    config: TracingConfig | None, service: str, pipeline: str, on_drop: Callable[[int], None] = lambda _: None
) -> Tracing | None:
    """None: it is not configured."""
    if config is None:
        return None
    try:
        from tidegate.observability.otlp import Collector
    except ImportError as error:
        raise extra_missing(service) from error
    return Tracing(Collector(config, service, pipeline).take, on_drop)


def check_installed(config: TracingConfig | None, service: str) -> None:
    """For a process whose children do the sending."""
    try:
        is_there = config is None or importlib.util.find_spec(_EXPORTER) is not None
    except ModuleNotFoundError:  # not even the package that it would be in
        is_there = False
    if not is_there:
        raise extra_missing(service)


def extra_missing(service: str) -> ConfigError:
    return ConfigError(
        "tracing is configured, but what sends spans is not installed",
        code="TRACING_NOT_INSTALLED",
        remedy=f"Install tidegate-{service}[tracing], as the images have it, or remove the section tracing.",
    )
