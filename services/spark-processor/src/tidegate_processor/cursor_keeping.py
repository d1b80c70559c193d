"""Kafka forgets a cursor that nobody has committed for a week (offsets.retention.minutes), and a lane may stand for
longer: paused, lost, or while the source is silent. So it is committed again now and then, as it is.

Invariant: whoever commits it has fenced all others first and read it then, so it never goes back. A lane that starts
at that moment is fenced, and starts again.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from tidegate.config.pipeline import PipelineConfig
from tidegate.errors import TidegateError
from tidegate.observability import logs
from tidegate_processor.sinks.base import CURSOR_KEPT_SECONDS
from tidegate_processor.sinks.registry import keeps_cursor_in_group, make_whole_sink
from tidegate_processor.table import LaneState

_FIRST_SECONDS = 600.0
"""Of standing, so that a short pause costs nothing."""
_STANDS = (LaneState.PAUSED, LaneState.LOST)

_log = logs.get("processor")


class CursorKeeper:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due: dict[str, float] = {}
        self._pool: ThreadPoolExecutor | None = None

    def look(self, config: PipelineConfig, states: Mapping[str, LaneState]) -> None:
        now = self._clock()
        self._due = {sink: due for sink, due in self._due.items() if sink in states}
        for sink, state in states.items():
            if state not in _STANDS or not keeps_cursor_in_group(config.sink(sink)):
                self._due.pop(sink, None)
            elif now >= self._due.setdefault(sink, now + _FIRST_SECONDS):
                self._due[sink] = now + CURSOR_KEPT_SECONDS
                self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="cursors")
                self._pool.submit(keep, config, sink)

    def close(self) -> None:
        """What is under way is awaited: its calls have deadlines."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def keep(config: PipelineConfig, name: str) -> None:
    try:
        sink = make_whole_sink(config, config.sink(name))
        try:
            cursor = sink.open()
            if cursor is not None:
                sink.commit(cursor)
        finally:
            sink.close()
    except TidegateError as error:  # a day is a small part of a week
        _log.failure("cursor_not_kept", error, sink=name)
    else:
        _log.info("cursor_kept", sink=name)
