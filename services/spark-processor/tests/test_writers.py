"""Several writers of one lane: whatever happens in whatever order, each event is delivered once, in order for its key,
and nothing is acked that any writer has not made durable."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import pytest
import redis as redis_client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kit.frames import GENERATION, ORDERS, RawLog
from kit.writers import POISON, Lane, Log, Target, Told

from tidegate.checkpoint.redis_store import read_ack
from tidegate.contracts.cursor import Cursor
from tidegate.lsn import Lsn
from tidegate.pgoutput.messages import (
    UNCHANGED,
    Column,
    Delete,
    Insert,
    Message,
    OldKind,
    Relation,
    ReplicaIdentity,
    Truncate,
    Update,
)
from tidegate.position import BEGINNING, Position
from tidegate_processor import meeting
from tidegate_processor.decode import Change
from tidegate_processor.sinks.shared.seated import agree

COLUMNS = ORDERS.columns
KEYED = (ORDERS, Relation(16386, "public", "items", ReplicaIdentity.INDEX, COLUMNS))
FULL = Relation(
    16387, "public", "full", ReplicaIdentity.FULL, tuple(Column(1, each.name, each.type_oid, -1) for each in COLUMNS)
)
KEYLESS = Relation(
    16388, "public", "log", ReplicaIdentity.NOTHING, tuple(Column(0, each.name, each.type_oid, -1) for each in COLUMNS)
)
TABLES = {relation.relation_id: relation for relation in (*KEYED, FULL, KEYLESS)}
KEYS = [b"%d" % key for key in range(4)]
MOST_FAILURES = 6
_names = itertools.count()


@pytest.fixture(scope="module", autouse=True)
def _no_rest() -> Iterator[None]:
    """A writer that waits hands on its turn, and needs no sleep."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(meeting, "_LOOK_SECONDS", 0)
        patch.setattr(meeting, "_REMIND_SECONDS", 0)
        yield


@dataclass(slots=True)
class Source:
    """Its rows, its transactions, and a raw log that may be written anew from any of them."""

    log: RawLog
    rows: set[tuple[int, bytes]] = field(default_factory=set)
    written: list[tuple[Lsn, list[Message]]] = field(default_factory=list)
    """Each transaction with where the log stood before it."""

    def change(self, draw: st.DrawFn) -> Message:
        table = draw(st.sampled_from(list(TABLES)))
        key, kind = draw(st.sampled_from(KEYS)), draw(st.integers(0, 9))
        if table == KEYLESS.relation_id:
            return Insert(table, (key, b"log"))
        if kind == 0:
            self.rows -= {each for each in self.rows if each[0] == table}
            return Truncate((table,), 0)
        if (table, key) not in self.rows:
            self.rows.add((table, key))
            return Insert(table, (key, b"new"))
        old = OldKind.FULL if table == FULL.relation_id else OldKind.KEY
        was = (key, b"x" if table == FULL.relation_id else None)
        free = [other for other in KEYS if (table, other) not in self.rows]
        if kind < 3:
            self.rows.remove((table, key))
            return Delete(table, old, was)
        if kind < 6 and free:
            to = draw(st.sampled_from(free))
            self.rows ^= {(table, key), (table, to)}
            return Update(table, old, was, (to, b"moved"))
        if table == FULL.relation_id:
            return Update(table, old, was, (key, b"changed"))
        return Update(table, None, None, (key, draw(st.sampled_from([b"changed", UNCHANGED, POISON]))))

    def write(self, changes: list[Message]) -> None:
        self.written.append((self.log.safe_lsn, changes))
        self.log.transaction(*changes, relations=tuple(TABLES.values()))

    @property
    def changes(self) -> set[tuple[int, Position]]:
        """Of which table, and where."""
        return {
            (table, Position(Lsn(before + 0x10), ordinal))
            for before, changes in self.written
            for ordinal, change in enumerate(changes)
            for table in getattr(change, "relation_ids", None) or (change.relation_id,)  # type: ignore[attr-defined]
        }

    def again(self, first: int, cuts: bool, topic_id: str | None) -> None:
        """The same transactions from one on, in other frames; in the same topic or in another."""
        again, self.written = self.written[first:], self.written[:first]
        before = again[0][0] if again else self.log.safe_lsn
        if topic_id is not None:
            self.log = RawLog(topic_id=topic_id)
            self.log.safe_lsn = before
        self.log.epoch(2 if topic_id else None, refeed_from=before)
        self.log.safe_lsn = before
        for _, changes in again:
            if (
                cuts
                and len(changes) > 1
                and {getattr(each, "relation_id", 0) for each in changes} == {ORDERS.relation_id}
            ):
                self.written.append((self.log.safe_lsn, changes))
                self.log.split_transaction(changes[:1], changes[1:])
            else:
                self.write(changes)


@st.composite
def sources(draw: st.DrawFn) -> Source:
    source = Source(RawLog())
    source.log.epoch()
    for _ in range(draw(st.integers(1, 14))):
        match draw(st.integers(0, 9)):
            case 0:
                source.log.tick()
            case 1 if source.written:
                source.again(draw(st.integers(0, len(source.written) - 1)), draw(st.booleans()), None)
            case 2:
                source.log.schema_change(ORDERS, ORDERS)
            case _:
                source.write([source.change(draw) for _ in range(draw(st.integers(1, 6)))])
    return source


def start_cursor(writers: int) -> Cursor:
    """Behind the first epoch frame, as the one writer left it with which every lane begins."""
    nonce = (1).to_bytes(16, "big").hex()
    return Cursor(GENERATION.id, "topic", 1, nonce, 0, 1, BEGINNING, Lsn(0x1000), "c1", 1, writers=writers)


def check_order(delivered: list[Change | Told]) -> None:
    """Each change once, and in order with all that concerns one of its keys."""
    changes = [each for each in delivered if isinstance(each, Change)]
    delivered_places = [place for change in changes for place in places(change)]
    assert len(delivered_places) == len(set(delivered_places)), "delivered twice"
    newest: dict[tuple[int, bytes], object] = {}
    for change in changes:
        for touched in concerned(change):
            assert newest.get(touched, BEGINNING) <= change.position, f"{touched} out of order"  # type: ignore[operator]
            newest[touched] = change.position


def places(change: Change) -> list[tuple[int, Position]]:
    return [(shape.relation.relation_id, change.position) for shape in change.shapes]


def refused_places(target: Target) -> list[tuple[int, Position]]:
    tables = {f"{relation.schema}.{relation.name}": table for table, relation in TABLES.items()}
    return [(tables[letter.channel], letter.position) for letter in target.letters]


def concerned(change: Change) -> set[tuple[int, bytes]]:
    message, table = change.message, change.shapes[0].relation.relation_id
    if isinstance(message, Truncate):
        return {(each, key) for each in message.relation_ids for key in (*KEYS, b"")}
    if table == KEYLESS.relation_id:
        return {(table, b"")}
    old, new = getattr(message, "old", None), getattr(message, "new", None)
    return {(table, row[0]) for row in (old, new) if row is not None and row[0] is not UNCHANGED}


def check_ack(client: redis_client.Redis, lane: Lane) -> None:
    ack = read_ack(client, lane.pipeline, GENERATION.id, "events")
    for cursor in lane.target.cursors.values() if ack is not None else ():
        assert ack.position <= cursor.position
        assert ack.safe_lsn <= cursor.safe_lsn
        assert ack.topic_id != cursor.topic_id or ack.offset < cursor.next_offset


@pytest.fixture(scope="module")
def client(redis) -> Iterator[redis_client.Redis]:
    client = redis_client.Redis.from_url(redis.url)
    yield client
    client.close()


def run(lanes: list[Lane], dice: Random, turns: int, forgets: float = 0.0) -> None:
    """The newest, until it has had all or a writer has failed. Those before it that live on have turns too. `forgets`:
    how often Redis loses all that it has of the lane; then only the next incarnation may come to the end."""
    lane, *before = reversed(lanes)
    lane.start()
    for _ in range(turns):
        if lane.has_failed or lane.has_had_all:
            return
        if dice.random() < forgets:
            lane.redis.delete(*lane.redis.keys(f"tidegate:{lane.pipeline}:*") or [lane.pipeline])  # type: ignore[misc]
        left_behind = [worker for old in before for worker in old.workers if not worker.has_ended]
        dice.choice([*lane.workers * 3, *left_behind]).step()
        check_order(lane.target.delivered)
        check_ack(lane.redis, lane)
        for each in lanes:
            assert not each.wrong, each.wrong[0]


def written_anew(source: Source, target: Target, dice: Random, topic_id: str) -> Log:
    """From what the least of the writers has on, or from before that."""
    reached = min(cursor.safe_lsn for cursor in target.cursors.values())
    lacking = [place for place, (before, _) in enumerate(source.written) if before >= reached]
    source.again(dice.randint(0, min(lacking, default=len(source.written))), dice.random() < 0.5, topic_id)
    return Log(topic_id, source.log.frames)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(source=sources(), dice=st.randoms(use_true_random=False), writers=st.integers(1, 5))
def test_every_event_is_delivered_once_and_in_order_for_its_key(client, source: Source, dice: Random, writers) -> None:
    pipeline, target = f"writers{next(_names)}", Target()
    target.cursors = dict.fromkeys(range(writers), start_cursor(writers))
    log, lanes = Log("topic", source.log.frames), list[Lane]()
    try:
        for incarnation in range(1, MOST_FAILURES + 1):
            lanes.append(
                Lane(client, pipeline, target, log, writers, incarnation, dice.randint(1, 6), dice.randint(1, 4))
            )
            run(lanes, dice, dice.randint(5, 120), forgets=dice.choice((0.0, 0.05)))
            if dice.random() < 0.5:
                lanes[-1].kill()
            if dice.random() < 0.3:
                for lane in lanes:  # a query ends with the topic that it reads
                    lane.kill()
                log = written_anew(source, target, dice, f"again {incarnation}")
        for lane in lanes:
            lane.kill()
        lanes.append(Lane(client, pipeline, target, log, writers, MOST_FAILURES + 1, 4, 2))
        run(lanes, dice, 100_000)
    finally:
        for lane in lanes:
            lane.kill()

    assert lanes[-1].has_had_all, [worker.failure for worker in lanes[-1].workers]
    changes = [change for change in target.delivered if isinstance(change, Change)]
    delivered, letters = [place for change in changes for place in places(change)], refused_places(target)
    assert source.changes == {*delivered, *letters}
    assert len(source.changes) == len(delivered) + len(letters)
    assert agree(list(target.cursors.values()))
    ack = read_ack(client, pipeline, GENERATION.id, "events")
    assert ack is not None
    assert min(cursor.position for cursor in target.cursors.values()) == ack.position
