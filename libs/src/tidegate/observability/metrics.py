"""Metrics are declared once, with meaning, unit and closed label sets, and can only be emitted as declared.

A service writes one class whose constructor declares everything:

    class ReaderMetrics:
        def __init__(self, sinks: Sequence[str]) -> None:
            self.all = Metrics("reader")
            self.confirmed = self.all.gauge("confirmed_lag", "bytes", "WAL not yet confirmed, by sink.", sink=sinks)

Invariant: declared equals exported. Every label combination exists from the start, so a series never appears late; a
label whose values change has those of now, and no series of others.
"""

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar

import prometheus_client as prometheus
from prometheus_client import CollectorRegistry, ProcessCollector

from tidegate.errors import StreamError

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

# From a frame's way through Kafka (a few ms) to a lane that is catching up.
LATENCY_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
# Each combination of labels is a series for ever.
MAX_SERIES: Final = 10_000

_WORD = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", re.ASCII)


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Declaration:
    """A metric as its reference page shows it."""

    name: str
    kind: Kind
    unit: str
    meaning: str
    labels: dict[str, tuple[str, ...]]


C = TypeVar("C", prometheus.Counter, prometheus.Gauge, prometheus.Histogram)


class _Metric(Generic[C]):
    """One declared metric with a child for each combination of its labels."""

    def __init__(self, declaration: Declaration, collector: C) -> None:
        self.declaration = declaration
        self.is_emitted = False
        self._collector: C = collector
        self._children: dict[tuple[str, ...], C] = _children(declaration, collector)

    def relabel(self, label: str, values: Sequence[str]) -> None:
        if label not in self.declaration.labels:
            return
        before, labels = self._children, self.declaration.labels | {label: tuple(values)}
        self.declaration = replace(self.declaration, labels=labels)
        self._children = _children(self.declaration, self._collector)
        for gone in before.keys() - self._children.keys():
            self._collector.remove(*gone)


class Counter(_Metric[prometheus.Counter]):
    def add(self, amount: float = 1, /, **labels: str) -> None:
        _child(self, self._children, labels).inc(amount)


class Gauge(_Metric[prometheus.Gauge]):
    def set(self, value: float, /, **labels: str) -> None:
        _child(self, self._children, labels).set(value)

    def follow(self, function: Callable[[], float], /, **labels: str) -> None:
        """Asked at each scrape: for what somebody else counts already."""
        _child(self, self._children, labels).set_function(function)


class Histogram(_Metric[prometheus.Histogram]):
    def observe(self, value: float, /, **labels: str) -> None:
        _child(self, self._children, labels).observe(value)


M = TypeVar("M", bound=_Metric[Any])


class Metrics:
    """The metrics of one service."""

    def __init__(self, service: str) -> None:
        self._service = service
        # The client's _created series are declared by nobody.
        prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]  # the client has no types here
        self._registry = CollectorRegistry()
        self._metrics: list[_Metric[Any]] = []
        ProcessCollector(registry=self._registry)

    def counter(self, thing: str, unit: str, meaning: str, **labels: Sequence[str]) -> "Counter":
        declaration = self._declare(Kind.COUNTER, thing, f"{unit}_total", meaning, labels)
        return self._keep(
            Counter(declaration, prometheus.Counter(*self._arguments(declaration), registry=self._registry))
        )

    def gauge(self, thing: str, unit: str, meaning: str, **labels: Sequence[str]) -> "Gauge":
        declaration = self._declare(Kind.GAUGE, thing, unit, meaning, labels)
        collector = prometheus.Gauge(*self._arguments(declaration), registry=self._registry)
        return self._keep(Gauge(declaration, collector))

    def histogram(
        self, thing: str, unit: str, meaning: str, buckets: Sequence[float] = LATENCY_BUCKETS, **labels: Sequence[str]
    ) -> "Histogram":
        declaration = self._declare(Kind.HISTOGRAM, thing, unit, meaning, labels)
        collector = prometheus.Histogram(*self._arguments(declaration), registry=self._registry, buckets=buckets)
        return self._keep(Histogram(declaration, collector))

    def exposition(self) -> str:
        """What /metrics answers."""
        return prometheus.generate_latest(self._registry).decode()

    @property
    def declarations(self) -> tuple[Declaration, ...]:
        return tuple(metric.declaration for metric in self._metrics)

    @property
    def never_emitted(self) -> tuple[str, ...]:
        """For a test that runs the service through all it does: each of these is declared for nothing."""
        return tuple(metric.declaration.name for metric in self._metrics if not metric.is_emitted)

    def relabel(self, label: str, values: Sequence[str]) -> None:
        """What the label may say from now on; series of other values are gone."""
        for metric in self._metrics:
            metric.relabel(label, values)

    def _declare(
        self, kind: Kind, thing: str, unit: str, meaning: str, labels: dict[str, Sequence[str]]
    ) -> Declaration:
        name = f"tidegate_{self._service}_{thing}_{unit}"
        wrong = not all(_WORD.fullmatch(word) for word in (name, unit, *labels)) or not meaning.endswith(".")
        if wrong or any(name == metric.declaration.name for metric in self._metrics):
            raise ValueError(f"{name}: names are lower_case and unique, and a meaning is a sentence")
        return Declaration(name, kind, unit, meaning, {label: tuple(values) for label, values in labels.items()})

    def _arguments(self, declaration: Declaration) -> tuple[str, str, tuple[str, ...]]:
        return declaration.name, declaration.meaning, tuple(declaration.labels)

    def _keep(self, metric: M) -> M:
        self._metrics.append(metric)
        return metric


def _children(declaration: Declaration, collector: C) -> dict[tuple[str, ...], C]:
    if not declaration.labels:
        return {(): collector}
    combinations = list(itertools.product(*declaration.labels.values()))
    if len(combinations) > MAX_SERIES:
        raise ValueError(f"{declaration.name}: {len(combinations)} label combinations are too many")
    return {values: collector.labels(*values) for values in combinations}


def _child(metric: _Metric[Any], children: dict[tuple[str, ...], C], labels: dict[str, str]) -> C:
    metric.is_emitted = True
    names = metric.declaration.labels
    child = children.get(tuple(labels.get(name, "") for name in names)) if len(labels) == len(names) else None
    if child is None:
        raise StreamError(
            f"{metric.declaration.name} was emitted with labels that are not declared",
            code="METRIC_LABEL",
            remedy="Report this: the label's values must be declared where the metric is.",
        )
    return child
