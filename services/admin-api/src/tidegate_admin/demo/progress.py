"""What the demo knows about itself at a moment: everything a view shows, from whoever knows it."""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from tidegate.stack.supervisor import ServiceStatus
from tidegate_admin.demo.ledger import Event, Ledger, Verdict, quantile
from tidegate_admin.pipelines.service import PipelineView

WINDOW_SECONDS = 10.0
SHOWN_EVENTS = 8
REMEMBERED_LATENCIES = 100_000


@dataclass(frozen=True, slots=True)
class Rates:
    """Over the last ten seconds."""

    events_a_second: float
    p50_seconds: float | None
    p99_seconds: float | None


@dataclass(slots=True)
class DemoProgress:
    begun: float
    """Monotonic time at which the command was given."""
    ledger: Ledger
    places: tuple[tuple[str, str], ...] = ()
    """(what, where): addresses for people."""
    stage: str = "starting"
    first_event: float | None = None
    view: PipelineView | None = None
    services: Sequence[ServiceStatus] = ()
    last_events: deque[Event] = field(default_factory=lambda: deque(maxlen=SHOWN_EVENTS))
    latencies: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED_LATENCIES))
    """Of changes committed after the first event was here: before it they waited for the start, not on the way."""
    _window: deque[tuple[float, float | None]] = field(default_factory=deque)

    def judge(self, event: Event) -> Verdict:
        now = time.monotonic()
        verdict = self.ledger.deliver(event)
        if verdict is Verdict.DELIVERED:
            self.first_event = self.first_event or now
            is_fresh = now - event.latency_seconds >= self.first_event
            if is_fresh:
                self.latencies.append(event.latency_seconds)
            self._window.append((now, event.latency_seconds if is_fresh else None))
            self.last_events.append(event)
        return verdict

    @property
    def first_event_seconds(self) -> float | None:
        return None if self.first_event is None else self.first_event - self.begun

    @property
    def running_seconds(self) -> float:
        """Since the first event."""
        return 0.0 if self.first_event is None else time.monotonic() - self.first_event

    @property
    def restarts(self) -> int:
        return sum(service.restarts for service in self.services)

    @property
    def wal_held_bytes(self) -> int | None:
        slot = self.view.slot if self.view else None
        return getattr(slot, "wal_held_bytes", None)

    def rates(self) -> Rates:
        now = time.monotonic()
        while self._window and self._window[0][0] < now - WINDOW_SECONDS:
            self._window.popleft()
        latencies = [latency for _, latency in self._window if latency is not None]
        seconds = min(WINDOW_SECONDS, max(1.0, self.running_seconds))
        return Rates(len(self._window) / seconds, quantile(latencies, 0.5), quantile(latencies, 0.99))
