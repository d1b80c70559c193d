"""A second required sink beside the topics: added and removed under load, blocked, slow, unanswered, its disk full.

    events ─▶ topics (judged at the barrier, as in every trial)
    second ─▶ tables of another database, behind a proxy; or files, on a disk of their own

Invariant: while the second stands the first goes on and the gate does not; afterwards the second has all, once, in
order; and once it is removed nothing waits for it.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

import yaml
from chaos.fleet import files, target
from chaos.fleet.faults import FLOW_SECONDS, REACH_SECONDS, flow, pause
from chaos.fleet.field import CATCH_UP_SECONDS, Fault, Field
from chaos.fleet.kills import Kind, kill
from chaos.fleet.link_faults import KINDS
from chaos.fleet.links import Link
from chaos.fleet.rig import SINK
from kit.exposed import lanes_of
from kit.pipelines import POSTGRES_PASSWORD
from kit.wait import wait

from tidegate.checkpoint.redis_store import read_lineage
from tidegate.contracts import names
from tidegate.contracts.ack import Ack, decode_ack
from tidegate.lsn import Lsn, parse_lsn

_START_SECONDS = 2 * REACH_SECONDS
_Sink = Mapping[str, object]


def table_link(kind: str, *, seconds: tuple[float, float] = (3, 8), dies: bool = False) -> Fault:
    """Tables of another database, whose link misbehaves; somebody may be killed meanwhile."""

    def fault(field: Field, draw: random.Random) -> None:
        with _tables(field, draw) as sink:
            flow(field, draw)
            order = dict(KINDS[kind])
            field.links.tell(Link.PROCESSOR_TARGET, str(order.pop("do")), **order)
            if dies:
                kill(field, draw.choice((Kind.READER, Kind.DRIVER)))
            _others_go_on(field)
            pause(draw.uniform(*seconds))
            _gate_waits(field, sink)
            field.links.tell(Link.PROCESSOR_TARGET, "heal")
            flow(field, draw)
            target.compare(field, CATCH_UP_SECONDS)

    return fault


def added_and_removed(field: Field, draw: random.Random) -> None:
    """A new sink gets all that the log holds, while the log grows; then nobody waits for it any more."""
    with _files(field, draw) as sink:
        flow(field, draw)
        files.compare(field, sink, CATCH_UP_SECONDS)


def removed_while_blocked(field: Field, draw: random.Random) -> None:
    """Its disk is full, so the slot stands; the barrier shows that it moves on once the sink is gone."""
    with files.small_disk(field) as disk, _files(field, draw) as sink:
        disk.fill()
        _others_go_on(field)
        _stands(field, sink)


def disk_full(field: Field, draw: random.Random) -> None:
    with files.small_disk(field) as disk, _files(field, draw) as sink:
        disk.fill()
        _others_go_on(field)
        _stands(field, sink)
        if draw.random() < 0.5:
            kill(field, Kind.DRIVER)
        disk.free()
        flow(field, draw)
        files.compare(field, sink, CATCH_UP_SECONDS)


@contextmanager
def _tables(field: Field, draw: random.Random) -> Iterator[str]:
    """From now on, and what was there before is copied, so nobody may write until it has begun."""
    name = f"tables{-field.own_id()}"
    field.load.pause()
    _drain(field)
    target.copy(field)
    options = {
        "dsn": f"postgresql://{field.servers.postgres.user}@127.0.0.1:{field.links.ports[Link.PROCESSOR_TARGET]}"
        f"/{target.database(field)}",
        "password": f"${{env:{POSTGRES_PASSWORD}}}",
    }
    with _attached(field, draw, {"name": name, "type": "pg_table", "from": "now", "options": options}):
        field.load.resume()
        yield name


@contextmanager
def _files(field: Field, draw: random.Random) -> Iterator[str]:
    """From now on: its disk may be too small for all that earlier trials have written."""
    name = f"files{-field.own_id()}"
    folder = files.folder(field, name)
    with _attached(field, draw, {"name": name, "type": "file", "from": "now", "options": {"path": str(folder)}}):
        yield name


@contextmanager
def _attached(field: Field, draw: random.Random, sink: _Sink) -> Iterator[None]:
    """Until its lane has acked as much as is confirmed: from then on the gate counts it."""
    _configure(field, draw, lambda sinks: [*sinks, sink])
    name = str(sink["name"])

    def counts() -> bool:
        confirmed, ack = field.rig.confirmed(), ack_of(field, name)
        return ack is not None and ack.safe_lsn >= confirmed

    wait(counts, _START_SECONDS, f"the lane of {name} has joined", 0.1)
    yield
    _configure(field, draw, lambda sinks: [each for each in sinks if each["name"] != name])


def _configure(field: Field, draw: random.Random, change: Callable[[list[_Sink]], list[_Sink]]) -> None:
    """As an operator does it: the file alone; or both services after it, in order or not."""
    file = field.rig.folder / "pipeline.yaml"
    values = yaml.safe_load(file.read_text())
    values["sinks"] = change(values["sinks"])
    file.write_text(yaml.safe_dump(values))
    if draw.random() < 0.5:
        _await_taken_over(field, {str(sink["name"]) for sink in values["sinks"]}, values["processor"]["http"])
        return
    keepers = [(field.reader, Kind.READER), (field.processor, Kind.DRIVER)]
    draw.shuffle(keepers)
    for keeper, kind in keepers:
        if draw.random() < 0.5:
            kill(field, kind)
        else:
            keeper.end()
            keeper.start()


def _await_taken_over(field: Field, sinks: set[str], processor: str) -> None:
    def is_taken_over() -> bool:
        lineage = read_lineage(field.redis, field.pipeline)
        if lineage is None or set(lineage.required) != sinks:
            return False
        with suppress(OSError):  # one that a fault has ended is on its way back
            return lanes_of(processor) == sinks
        return False

    wait(is_taken_over, _START_SECONDS, "both services have taken the file over while they run", 0.1)


def ack_of(field: Field, sink: str) -> Ack | None:
    for key in field.redis.keys(names.ack_key(field.pipeline, "*")):  # type: ignore[union-attr]
        value = field.redis.hget(key, sink)
        if isinstance(value, bytes):
            return decode_ack(value, sink=sink, generation=key.decode().split(":")[2])
    return None


def _others_go_on(field: Field) -> None:
    field.load.wait_for(10, FLOW_SECONDS)
    lsn = _wal_lsn(field)

    def goes_on() -> bool:
        ack = ack_of(field, SINK)
        return ack is not None and ack.safe_lsn >= lsn

    wait(goes_on, CATCH_UP_SECONDS, "I1: the other sink goes on")


def _gate_waits(field: Field, sink: str) -> None:
    confirmed, ack = field.rig.confirmed(), ack_of(field, sink)
    assert ack is not None, f"I3: the ack of {sink} is gone"
    assert confirmed <= ack.safe_lsn, f"I3: confirmed is {confirmed - ack.safe_lsn} bytes above the ack of {sink}"


def _stands(field: Field, sink: str) -> None:
    """Nothing is written any more: the ack stays behind what is committed, and the slot behind the ack."""
    lsn = _wal_lsn(field)
    pause(3.0)
    _gate_waits(field, sink)
    assert field.rig.confirmed() < lsn, f"I3: confirmed goes on, and {sink} can write nothing"


def _drain(field: Field) -> None:
    lsn = _wal_lsn(field)
    wait(lambda: field.rig.confirmed() >= lsn, CATCH_UP_SECONDS, "I9: the slot is confirmed up to what is written", 0.1)


def _wal_lsn(field: Field) -> Lsn:
    return parse_lsn(field.rig.sql("SELECT pg_current_wal_lsn()::text")[0][0])
