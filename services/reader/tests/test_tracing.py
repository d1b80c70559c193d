"""A reader that traces, beside collectors of every kind, is the reader that it is without."""

import json
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kit.collector import collector
from kit.wait import wait

from tidegate.observability.trace_context import trace_of

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def hanging() -> Iterator[str]:
    """Takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def dropped(port: int) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("tidegate_reader_dropped_spans_total "))


def test_each_transaction_that_is_sampled_becomes_a_trace(fleet: Any, lane: Any) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    with collector() as received:
        fleet.settings["tracing"] = {"endpoint": received.url, "ratio": 1.0}
        process = fleet.reader()
        lane()
        [(xid,)] = fleet.sql("INSERT INTO orders (note) VALUES ('canary'), ('b') RETURNING pg_current_xact_id()::xid")[
            :1
        ]
        received.until("confirmed", 1, 20)

        root = next(each for each in received.named("transaction") if each.attributes["tidegate.xid"] == int(xid))
        steps = {each.name for each in received.trace(root.trace_id) if each.parent_id == root.span_id}
        assert fleet.stop(process) == 0
    assert root.attributes["tidegate.changes"] == 2
    assert steps >= {"received", "framed", "produced"}
    assert root.trace_id in {f"{each:032x}" for each in traces_in(fleet)}
    assert not any("canary" in str(each.attributes) for each in received.spans)


def traces_in(fleet: Any) -> set[int]:
    """Of what the raw topic holds, derived from it alone."""
    system_id = fleet.frames()[0].header.generation.system_identifier
    begun = [message for message in fleet.messages() if type(message).__name__ == "Begin"]
    return {
        trace_of(system_id=system_id, commit_lsn=each.commit_lsn, xid=each.xid, commit_time=each.commit_time).trace_id
        for each in begun
    }


def test_a_collector_that_hangs_delays_neither_a_change_nor_the_stop(
    fleet: Any, lane: Any, hanging: str, unused_port: int
) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    fleet.settings["tracing"] = {"endpoint": hanging, "ratio": 1.0}
    fleet.settings["reader"]["http"] = f"127.0.0.1:{unused_port}"
    process = fleet.reader()
    lane()
    fleet.sql("DO 'BEGIN FOR i IN 1..3000 LOOP INSERT INTO orders (note) VALUES (i); COMMIT; END LOOP; END'")
    written = fleet.wal_end()

    wait(lambda: fleet.confirmed() >= written, 20, "everything is confirmed")
    wait(lambda: dropped(unused_port) > 0, 30, "spans are dropped and counted")
    assert fleet.stop(process) == 0
    assert fleet.log().count("spans_dropped") == 1


def test_a_reader_that_traces_nothing_imports_nothing_of_it(fleet: Any, lane: Any) -> None:
    fleet.program = ("-X", "importtime", "-m", "tidegate_reader.main")
    process = fleet.reader()
    lane()
    fleet.sql("INSERT INTO orders (note) VALUES ('a')")
    written = fleet.wal_end()
    wait(lambda: fleet.confirmed() >= written, 20, "it is confirmed")
    assert fleet.stop(process) == 0

    imported = {line.rpartition("|")[2].strip() for line in fleet.log().splitlines() if "import time:" in line}
    assert "tidegate_reader.pipeline" in imported
    # A package comes before what is in it; what was tried in vain is listed too.
    assert {"opentelemetry", "requests", "google"}.isdisjoint(imported)


_WITHOUT = """
import sys
sys.modules["tidegate.observability.otlp"] = None
from tidegate_reader.main import main
main()
"""


def test_tracing_that_is_not_installed_is_a_mistake_of_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    values = {
        "pipeline": "shop",
        "source": {"dsn": "postgresql://t@127.0.0.1:1/shop", "publication": {"tables": ["public.orders"]}},
        "kafka": {"bootstrap": "127.0.0.1:1"},
        "redis": {"url": "redis://127.0.0.1:1"},
        "sinks": [{"name": "events", "type": "kafka_topics"}],
        "reader": {"http": "127.0.0.1:0"},
        "tracing": {"endpoint": "http://127.0.0.1:1"},
    }
    path.write_text(json.dumps(values))
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT, "--config", str(path)], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 2
    assert "TRACING_NOT_INSTALLED" in done.stderr
    assert "tidegate-reader[tracing]" in done.stderr
