"""Spans go to a collector if there is one, and nobody waits for it."""

import json
import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.collector import Collector, collector
from kit.wait import wait

from tidegate.config.secret import Secret
from tidegate.config.tracing import TracingConfig
from tidegate.errors import ConfigError
from tidegate.observability import tracing
from tidegate.observability.tracing import MOST_WAITING, Span, Tracing, check_installed, open_tracing

TRACE, ROOT, CHILD = 0xA0, 0xB0, 0xC0


def span(name: str = "transaction", span_id: int = ROOT, parent_id: int = 0) -> Span:
    return Span(name, TRACE, span_id, parent_id, 1_000, 2_000, {"tidegate.xid": 750, "tidegate.slot": "s"})


@pytest.fixture
def receiver() -> Iterator[Collector]:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    with collector() as made:
        yield made


@pytest.fixture
def opened() -> Iterator[list[Tracing]]:
    made: list[Tracing] = []
    yield made
    for each in made:
        each.close(1)


def send(opened: list[Tracing], url: str, spans: list[Span], **settings: object) -> Tracing:
    made = open_tracing(TracingConfig(endpoint=url, **settings), "reader", "shop")
    assert made is not None
    opened.append(made)
    made.give(spans)
    return made


def test_a_span_arrives_with_the_ids_times_and_attributes_that_it_was_given(receiver, opened) -> None:
    send(opened, receiver.url, [span(), span("framed", CHILD, ROOT)])

    [root], [child] = receiver.until("transaction", 1, 10), receiver.until("framed", 1, 10)
    assert (root.service, root.trace_id, root.span_id, root.parent_id) == (
        "tidegate-reader",
        f"{TRACE:032x}",
        f"{ROOT:016x}",
        "",
    )
    assert (child.trace_id, child.span_id, child.parent_id) == (root.trace_id, f"{CHILD:016x}", root.span_id)
    assert (root.start, root.end, root.attributes) == (1_000, 2_000, {"tidegate.xid": 750, "tidegate.slot": "s"})
    assert receiver.requests[0]["path"] == "/v1/traces"


def test_a_secret_is_sent_and_read_anew_each_time(receiver, opened, tmp_path: Path, monkeypatch) -> None:
    token = tmp_path / "token"
    token.write_text("canary-1\n")
    headers = {"authorization": Secret("file", str(token))}
    made = send(opened, receiver.url + "/otlp/", [span()], headers=headers)
    receiver.until("transaction", 1, 10)
    token.write_text("canary-2\n")
    made.give([span("framed")])
    receiver.until("framed", 1, 10)

    assert [each["authorization"] for each in receiver.requests] == ["canary-1", "canary-2"]
    assert receiver.requests[0]["path"] == "/otlp/v1/traces"


@pytest.mark.parametrize("answer", [302, 307, 400, 404])
def test_what_is_not_taken_is_dropped_and_no_redirect_is_followed(receiver, opened, answer: int) -> None:
    with collector() as elsewhere:
        receiver.answer, receiver.headers = answer, {"Location": elsewhere.url + "/v1/traces"}
        made = send(opened, receiver.url, [span()])
        wait(lambda: made.dropped == 1, 10, "the span is dropped")
        assert elsewhere.requests == []


def test_of_an_answer_without_end_only_its_beginning_is_read(receiver, opened) -> None:
    receiver.answer, receiver.body = 400, bytes(64 * 2**20)
    made = send(opened, receiver.url, [span()])

    wait(lambda: made.dropped == 1, 10, "the span is dropped")


def test_a_secret_that_is_gone_stops_nothing(receiver, opened) -> None:
    made = send(opened, receiver.url, [span()], headers={"authorization": Secret("env", "NO_SUCH_VARIABLE")})

    wait(lambda: made.dropped == 1, 10, "the span is dropped")
    assert receiver.requests == []


def test_a_collector_that_hangs_costs_spans_and_nothing_else(opened, caplog: pytest.LogCaptureFixture) -> None:
    """It takes connections and never answers."""
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    with socket.create_server(("127.0.0.1", 0)) as listener, caplog.at_level(logging.WARNING):
        made = send(opened, f"http://127.0.0.1:{listener.getsockname()[1]}", [])
        begun = time.monotonic()
        for _ in range(MOST_WAITING):
            made.give([span(), span("framed", CHILD, ROOT)])
        assert time.monotonic() - begun < 2  # each a few microseconds
        assert made.dropped >= MOST_WAITING
        begun = time.monotonic()
        made.close()
        assert time.monotonic() - begun < 2

    assert [record.getMessage() for record in caplog.records] == ["spans_dropped"]


def test_what_is_dropped_is_counted_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    counted: list[int] = []
    made = Tracing(lambda _: False, counted.append, every_seconds=0.001)
    with caplog.at_level(logging.WARNING):
        for total in range(1, 4):
            made.give([span()])
            wait(lambda total=total: made.dropped == total, 5, "it is dropped")
    made.close(5)

    assert counted == [1, 1, 1]
    assert [record.getMessage() for record in caplog.records] == ["spans_dropped"]


def test_what_waits_is_sent_when_it_is_closed() -> None:
    sent: list[Span] = []
    made = Tracing(lambda spans: sent.extend(spans) or True, every_seconds=60)
    made.give([span()])
    made.close(5)

    assert (sent, made.dropped) == ([span()], 0)


def test_a_close_does_not_wait_for_long() -> None:
    hold = threading.Event()
    made = Tracing(lambda _: hold.wait(30), every_seconds=0.001)
    made.give([span()])
    begun = time.monotonic()
    made.close(0.1)

    assert time.monotonic() - begun < 2
    hold.set()


def test_what_is_not_installed_is_a_mistake_of_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tidegate.observability.otlp", None)
    config = TracingConfig(endpoint="http://collector:4318")
    with pytest.raises(ConfigError) as caught:
        open_tracing(config, "reader", "shop")
    assert (caught.value.code, caught.value.exit_code) == ("TRACING_NOT_INSTALLED", 2)
    assert "tidegate-reader[tracing]" in caught.value.remedy

    monkeypatch.setattr(tracing, "_EXPORTER", "no_such_package.inside")
    check_installed(None, "processor")
    with pytest.raises(ConfigError, match="not installed"):
        check_installed(config, "processor")


def test_without_a_collector_nothing_of_it_is_imported() -> None:
    program = (
        "import sys, json; from tidegate.observability.tracing import open_tracing, check_installed; "
        "assert open_tracing(None, 'reader', 'shop') is None; check_installed(None, 'reader'); "
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert {"opentelemetry", "requests", "google", "pydantic"}.isdisjoint(json.loads(done.stdout))
