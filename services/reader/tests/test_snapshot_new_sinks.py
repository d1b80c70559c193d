"""A sink that begins with a snapshot: one of its tables is taken when its lane has a place, and never again."""

import signal
from typing import Any

from kit.snapshots import replica_of, snapshot_marks
from kit.wait import wait

from tidegate.contracts.mark import MarkKind

LATE = {"name": "late", "type": "kafka_topics", "from": "snapshot", "routes": [{"tables": ["public.orders"]}]}


def completed(fleet: Any) -> list[str]:
    marks = snapshot_marks(fleet.frames())
    return [str(mark.details["table"]) for mark in marks if mark.kind is MarkKind.SNAPSHOT_COMPLETED]


def take_place(fleet: Any, sink: str) -> None:
    """As its lane does: it says which frame it has taken first."""
    fleet.ack(fleet.valid_records()[-1], sink=sink)


def test_it_is_taken_once_of_what_the_sink_takes(fleet: Any) -> None:
    fleet.sql("CREATE TABLE other (id int PRIMARY KEY)")
    fleet.sql("INSERT INTO other VALUES (1)")
    fleet.sql("INSERT INTO orders (note) SELECT 'row ' || n FROM generate_series(1, 500) n")
    fleet.settings["source"]["publication"]["tables"] = ["public.orders", "public.other"]
    fleet.settings["sinks"].append(LATE)
    process = fleet.reader()
    fleet.sql("INSERT INTO orders (note) VALUES ('501')")
    wait(lambda: len(replica_of(fleet.valid_records()).changes) == 1, 10, "the stream flows")
    assert completed(fleet) == []

    take_place(fleet, "late")
    wait(lambda: completed(fleet) == ["orders"], 30, "its table is read")
    assert len(replica_of(fleet.valid_records()).named("orders")) == 501

    assert fleet.stop(process) == 0
    fleet.reader()
    take_place(fleet, "late")
    fleet.sql("INSERT INTO orders (note) VALUES ('502')")
    wait(lambda: len(replica_of(fleet.valid_records()).changes) >= 2, 10, "the stream flows again")
    assert completed(fleet) == ["orders"]


def test_one_that_comes_while_the_reader_runs_is_served_as_at_a_start(fleet: Any) -> None:
    fleet.sql("INSERT INTO orders (note) SELECT 'row ' || n FROM generate_series(1, 200) n")
    fleet.settings["snapshot"] = {"mode": "never"}
    process = fleet.reader()
    fleet.settings["sinks"].append(LATE)
    fleet.config()
    process.send_signal(signal.SIGHUP)
    wait(lambda: "gate_counts_on" in fleet.log(), 20, "the file is taken over")
    assert completed(fleet) == []

    take_place(fleet, "late")
    wait(lambda: completed(fleet) == ["orders"], 30, "its table is read")
    assert len(replica_of(fleet.valid_records()).named("orders")) == 200
    assert process.poll() is None


def test_one_that_a_start_would_refuse_is_refused_and_the_others_go_on(fleet: Any) -> None:
    process = fleet.reader()
    fleet.settings["sinks"].append({"name": "whole", "type": "kafka_topics", "toast": "require_full"})
    fleet.config()
    process.send_signal(signal.SIGHUP)
    wait(lambda: "TOAST_IDENTITY" in fleet.log(), 20, "the file is refused")
    fleet.sql("INSERT INTO orders (note) VALUES ('goes on')")
    wait(lambda: len(replica_of(fleet.valid_records()).changes) == 1, 10, "the stream flows")

    del fleet.settings["sinks"][-1]
    fleet.config()
    process.send_signal(signal.SIGHUP)
    wait(lambda: "config_loaded" in fleet.log(), 20, "the file is right again")
    assert process.poll() is None
