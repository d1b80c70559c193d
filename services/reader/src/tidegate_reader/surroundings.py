"""What every part of one reader process shares; made by main, passed down."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.config.reloads import Reloads
from tidegate.observability.health import Health
from tidegate.observability.logs import Log
from tidegate.observability.tracing import Tracing
from tidegate_reader.metrics import ReaderMetrics
from tidegate_reader.progress import Progress
from tidegate_reader.reporting import Reporter

if TYPE_CHECKING:
    from tidegate.config.pipeline import PipelineConfig

COMPONENTS = ("reader", "source", "raw_topic", "acks", "wal", "tables", "configuration")


@dataclass(frozen=True, slots=True)
class Surroundings:
    config: PipelineConfig
    """As it was at the start; `reloads` knows what is in force."""
    reloads: Reloads
    progress: Progress
    metrics: ReaderMetrics
    health: Health
    reporter: Reporter
    log: Log
    stop: asyncio.Event
    tracing: Tracing | None = None
