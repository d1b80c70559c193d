"""Declared equals exported, and nothing else can be emitted."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tidegate.errors import StreamError
from tidegate.observability.metrics import MAX_SERIES, Metrics


def samples(metrics: Metrics) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(metrics.exposition())
        for sample in family.samples
        if not family.name.startswith("process_")
    }


def test_every_series_is_there_from_the_start() -> None:
    metrics = Metrics("reader")
    metrics.counter("received", "bytes", "Bytes received.")
    metrics.gauge("lag", "seconds", "Lag of a sink.", sink=("a", "b"))

    assert samples(metrics) == {
        ("tidegate_reader_received_bytes_total",): 0,
        ("tidegate_reader_lag_seconds", "a"): 0,
        ("tidegate_reader_lag_seconds", "b"): 0,
    }


def test_declared_equals_exported() -> None:
    metrics = Metrics("reader")
    metrics.counter("received", "bytes", "Bytes received.")
    metrics.gauge("lag", "seconds", "Lag.")
    metrics.histogram("produce", "seconds", "Time of a produce.")

    families = {family.name for family in text_string_to_metric_families(metrics.exposition())}

    declared = {declaration.name.removesuffix("_total") for declaration in metrics.declarations}
    assert {name for name in families if not name.startswith("process_")} == declared


def test_what_is_emitted_is_exported() -> None:
    metrics = Metrics("reader")
    received = metrics.counter("received", "bytes", "Bytes received.")
    lag = metrics.gauge("lag", "seconds", "Lag of a sink.", sink=("a", "b"))
    produce = metrics.histogram("produce", "seconds", "Time of a produce.", buckets=(0.1, 1.0))
    held = metrics.gauge("held", "bytes", "WAL held.")

    received.add(3)
    received.add()
    lag.set(1.5, sink="b")
    produce.observe(0.5)
    held.follow(lambda: 7)

    found = samples(metrics)
    assert found["tidegate_reader_received_bytes_total",] == 4
    assert found["tidegate_reader_lag_seconds", "b"] == 1.5
    assert found["tidegate_reader_produce_seconds_bucket", "1.0"] == 1
    assert found["tidegate_reader_held_bytes",] == 7


@pytest.mark.parametrize("labels", [{}, {"sink": "c"}, {"lane": "a"}, {"sink": "a", "lane": "a"}, {"sink": 'a"}\nx 1'}])
def test_a_label_outside_its_set_is_refused(labels: dict[str, str]) -> None:
    lag = Metrics("reader").gauge("lag", "seconds", "Lag of a sink.", sink=("a", "b"))

    with pytest.raises(StreamError) as caught:
        lag.set(1, **labels)

    assert caught.value.code == "METRIC_LABEL"


def test_what_was_declared_for_nothing_is_named() -> None:
    metrics = Metrics("reader")
    metrics.gauge("lag", "seconds", "Lag.").set(1)
    metrics.gauge("held", "bytes", "WAL held.")

    assert metrics.never_emitted == ("tidegate_reader_held_bytes",)


@pytest.mark.parametrize(
    ("thing", "unit", "meaning"),
    [("Lag", "seconds", "Lag."), ("lag", "", "Lag."), ("lag", "s-1", "Lag."), ("lag", "seconds", "No sentence")],
)
def test_a_declaration_out_of_form_is_refused(thing: str, unit: str, meaning: str) -> None:
    with pytest.raises(ValueError, match="lower_case"):
        Metrics("reader").gauge(thing, unit, meaning)


def test_a_name_is_declared_once() -> None:
    metrics = Metrics("reader")
    metrics.gauge("lag", "seconds", "Lag.")

    with pytest.raises(ValueError, match="unique"):
        metrics.gauge("lag", "seconds", "Lag.")


def test_labels_that_multiply_without_bound_are_refused() -> None:
    tables = [str(number) for number in range(MAX_SERIES + 1)]

    with pytest.raises(ValueError, match="too many"):
        Metrics("reader").gauge("rows", "changes", "Rows of a table.", table=tables)


def test_a_label_that_says_something_else_keeps_what_stays_and_has_no_series_of_what_is_gone() -> None:
    metrics = Metrics("reader")
    lag = metrics.gauge("lag", "seconds", "Lag of a sink.", sink=("a", "b"))
    lag.set(7, sink="b")

    metrics.relabel("sink", ("b", "c"))

    assert samples(metrics) == {("tidegate_reader_lag_seconds", "b"): 7, ("tidegate_reader_lag_seconds", "c"): 0}
    assert metrics.declarations[0].labels == {"sink": ("b", "c")}
    with pytest.raises(StreamError):
        lag.set(1, sink="a")
