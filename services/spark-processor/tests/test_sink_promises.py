"""What every sink promises beside its rows: it refuses what it can't take, counts what arrived, and keeps secrets."""

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kit.deliveries import deliver, feed
from kit.frames import ORDERS, RawLog, row
from kit.sink_rigs import NOWHERE, RIGS, SINK, TARGET_PASSWORD, EventRig, Rig

from tidegate.config.kafka import KafkaConfig
from tidegate.config.sinks import Route
from tidegate.errors import StreamError, TidegateError
from tidegate.events import Operation
from tidegate.observability import logs
from tidegate.pgoutput.messages import Delete, OldKind, Truncate, Update
from tidegate_processor.sinks import registry

CANARY = "canary-7f3a"
RELATION = ORDERS.relation_id
CAPABILITIES = {Operation.DELETE: "deletes", Operation.TRUNCATE: "truncates"}


@pytest.fixture(params=RIGS)
def rig(request: pytest.FixtureRequest, tmp_path: Path, prefix: str, kafka) -> Rig:
    more = {"postgres": request.getfixturevalue("postgres")} if request.param == "pg_table" else {}
    return RIGS[request.param](prefix, kafka.bootstrap, "redis://127.0.0.1:1", tmp_path, **more)


@pytest.mark.parametrize("operation", CAPABILITIES)
def test_an_operation_that_is_not_declared_is_refused_before_anything_is_written(
    rig: Rig, operation: Operation, monkeypatch
) -> None:
    """Unless the routes leave it out: then it never comes."""
    kind = registry._KINDS[rig.config.sink(SINK).type]

    def lacking(*arguments: Any) -> Any:
        made = kind.make(*arguments)
        made.capabilities = replace(made.capabilities, **{CAPABILITIES[operation]: False})
        return made

    monkeypatch.setitem(registry._KINDS, rig.config.sink(SINK).type, replace(kind, make=lacking))
    with pytest.raises(StreamError) as raised:
        rig.make()
    routes = (Route(tables=("*.*",), operations=tuple(set(Operation) - {operation})),)
    sink = rig.config.sink(SINK).model_copy(update={"routes": routes})

    assert raised.value.code == "SINK_OPERATION_UNDECLARED"
    assert operation in raised.value.message
    rig.make(rig.config.model_copy(update={"sinks": (sink,)})).close()


def test_what_a_lane_counts_is_what_a_second_client_finds(rig: Rig) -> None:
    """Of inserts, updates, deletes, a truncate, and one that can't be delivered (pg_table counted that)."""
    log = RawLog()
    log.epoch()
    log.transaction(row(1, "one"), row(2, "two"), Update(RELATION, None, None, (b"1", b"uno")))
    log.transaction(replace(row(3), new=(b"3", b"\xff\xfe")), Delete(RELATION, OldKind.KEY, (b"2", None)))
    log.transaction(Truncate((RELATION,), 0), row(4, "four"))
    sink = rig.make()
    lane = deliver(sink)
    feed(lane, log)
    sink.close()
    counted = lane.counters

    assert (counted.events, counted.dead_letters) == (6, len(rig.letters()))
    assert counted.dead_letters == 1
    assert counted.frames == len(log.frames)
    if isinstance(rig, EventRig):
        values = list(rig.values())
        assert len(values) == counted.events
        ends = 0 if rig.type == "kafka_topics" else len(values)
        assert sum(map(len, values)) + ends == counted.bytes
    else:
        assert counted.bytes > 0
        assert rig.rows() == {4: "four"}


@pytest.fixture
def secretive(rig: Rig, monkeypatch) -> Rig:
    """Its passwords are canaries, and what it would reach is not there."""
    monkeypatch.setenv("CANARY_PASSWORD", CANARY)
    monkeypatch.setattr(rig, "environment", lambda: {TARGET_PASSWORD: CANARY} if rig.type == "pg_table" else {})
    secret = "${env:CANARY_PASSWORD}"
    security = {"protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN", "username": "lane", "password": secret}
    kafka = KafkaConfig.model_validate_json(json.dumps({"bootstrap": NOWHERE, "security": security}))
    rig.config = rig.configured().model_copy(update={"kafka": kafka})
    return rig


def test_no_secret_is_shown_of_a_sink_its_configuration_its_errors_or_its_logs(secretive: Rig, monkeypatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr("sys.stderr", written)
    logs.configure("processor", "shop", level="debug", style="json")
    made = secretive.make()
    shown = [repr(each) for each in parts_of(made)]
    shown += [repr(secretive.config), str(secretive.config), secretive.config.model_dump_json(by_alias=True)]
    try:
        made.ping()
        made.open()
    except TidegateError as error:
        shown += [str(error), repr(error), error.remedy, repr(error.__cause__)]
    made.close()

    assert len(shown) > 3
    assert CANARY not in "".join((*shown, written.getvalue()))


def parts_of(thing: object) -> Iterator[object]:
    """It, and whatever of ours it is made of."""
    seen: dict[int, object] = {}
    waiting = [thing]
    while waiting:
        part = waiting.pop()
        if id(part) in seen or not type(part).__module__.startswith("tidegate"):
            continue
        seen[id(part)] = part
        yield part
        names = getattr(part, "__dict__", None) or getattr(type(part), "__slots__", ())
        waiting += [getattr(part, name) for name in names if hasattr(part, name)]
