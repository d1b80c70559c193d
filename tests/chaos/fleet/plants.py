"""Bugs planted on purpose: what the harness must catch to be believed.

A service imports its own module, and right behind that import the module is spoiled; so the bug is there in the
driver, in Spark's workers and in the reader alike. A process that starts later is spoiled with what is planted then.
Invariant: imports nothing of the services by itself.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import json
import random
import sys
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

VARIABLE = "CHAOS_PLANTED"
FOLDER = Path(__file__).with_name("planted")

Spoil = Callable[[Any], None]  # a module, of which anything may be replaced


@dataclass(frozen=True, slots=True)
class Plant:
    module: str
    spoil: Spoil


class _Spoiler(importlib.abc.MetaPathFinder):
    def __init__(self, file: Path) -> None:
        self._file = file
        self._modules = {each.module for plants in PLANTS.values() for each in plants}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self._modules:
            return None
        self._modules.discard(name)
        spoils = [each.spoil for each in PLANTS.get(_planted(self._file), ()) if each.module == name]
        if not spoils:
            return None
        spec = importlib.util.find_spec(name)  # by the finders behind this one: the name is out of our list now
        assert spec is not None
        assert spec.loader is not None
        execute = spec.loader.exec_module

        def spoiled(module: ModuleType) -> None:
            execute(module)
            for spoil in spoils:
                spoil(module)

        spec.loader.exec_module = spoiled  # type: ignore[method-assign]
        return spec


def _planted(file: Path) -> str:
    try:
        return file.read_text()
    except FileNotFoundError:
        return ""


def watch(file: Path) -> None:
    """What the file names when a module is imported is planted into it."""
    sys.meta_path.insert(0, _Spoiler(file))


def _confirm_on_receive(pipeline: Any) -> None:
    levels = pipeline.Levels
    pipeline.Levels = lambda received, confirmed: levels(received, received)


def _filter_by_change_lsn(framer: Any) -> None:
    """Changes that lie before one already seen: those of transactions that were open while others committed."""
    feed, rows = framer.Framer.feed, frozenset(b"IUD")

    def filtered(self: Any, batch: Any, now: float) -> Any:
        kept = []
        for data in batch:
            lsn = int.from_bytes(data[1:9], "big")
            is_row = data[0] == 0x77 and len(data) > 25 and data[25] in rows
            if is_row and lsn < getattr(framer, "_highest", 0):
                continue
            if is_row:
                framer._highest = lsn
            kept.append(data)
        return feed(self, kept, now)

    framer.Framer.feed = filtered


_heard = [0]


def _remember_keepalives(keepalives: Any) -> None:
    hear = keepalives.Keepalives.hear

    def remembered(self: Any, data: Any, *, in_transaction: bool) -> Any:
        _heard[0] = hear(self, data, in_transaction=in_transaction)
        return _heard[0]

    keepalives.Keepalives.hear = remembered


def _confirm_keepalives(pipeline: Any) -> None:
    levels = pipeline.Levels
    pipeline.Levels = lambda received, confirmed: levels(
        received, type(confirmed)(max(confirmed, min(_heard[0], received)))
    )


def _commit_lsn_for_end_lsn(transactions: Any) -> None:
    commit = transactions.TransactionTracker.commit

    def too_low(self: Any, message: bytes) -> Any:
        position, _, skip = commit(self, message)
        return position, position.commit_lsn, skip

    transactions.TransactionTracker.commit = too_low


def _ack_before_commit(stage: Any) -> None:
    obey = stage.Stage._obey
    stage._CONTROL_SECONDS = 0.0

    def early(self: Any) -> None:
        if self._delivery is not None:
            self._link.acknowledge(self._delivery.ack())
        obey(self)

    stage.Stage._obey = early


def _failed_produce_swallowed(publisher: Any) -> None:
    outcome, settled = publisher._outcome, publisher.Publisher._settled
    failed = publisher.TransientError

    async def swallowed(future: Any) -> int:
        try:
            return int(await outcome(future))
        except failed:
            return -1

    def ignored(self: Any, frame: Any, offset: int) -> None:
        if offset >= 0:
            self.next_offset = offset
            settled(self, frame, offset)

    publisher._outcome, publisher.Publisher._settled = swallowed, ignored


def _missing_ack_ignored(gate: Any) -> None:
    acked = gate.Gate.acked

    def ignores(self: Any, acks: Any) -> None:
        self._acked = {name: value for name, value in self._acked.items() if name in acks}
        acked(self, acks)

    gate.Gate.acked = ignores


def _tampering(change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Spoil:
    """What the sink hands to Kafka's client, batch by batch."""

    def spoil(transactional: Any) -> None:
        send = transactional.TransactionalProducer.send

        def tampered(self: Any, topic: str, partition: int, batch: list[dict[str, Any]]) -> None:
            send(self, topic, partition, change(batch) if ".public." in topic else batch)

        transactional.TransactionalProducer.send = tampered

    return spoil


def _null_for_unchanged(batch: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for message in batch:
        event = json.loads(message["value"])
        unchanged = event["payload"].get("unchanged")
        if unchanged:
            event["payload"]["row"] |= dict.fromkeys(unchanged)
            event["payload"]["unchanged"] = []
            message["value"] = json.dumps(event, ensure_ascii=False).encode()
    return batch


def _swapped(batch: list[dict[str, Any]]) -> list[dict[str, Any]]:
    places: dict[Any, int] = {}
    for at, message in enumerate(batch):
        before = places.setdefault(message.get("key"), at)
        if before != at:
            return [*batch[:before], batch[at], *batch[before + 1 : at], batch[before], *batch[at + 1 :]]
    return batch


def _random_ids(batch: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for message in batch:
        value = bytes(message["value"])
        begin = value.index(b'"id"') + len(b'"id"')
        begin = value.index(b'"', begin) + 1
        drawn = str(uuid.UUID(int=random.getrandbits(128))).encode()
        message["value"] = value[:begin] + drawn + value[begin + len(drawn) :]
    return batch


def _dead_letters_dropped(dead_letter_topic: Any) -> None:
    dead_letter_topic.DeadLetterTopic.send = lambda self, letters, producer: None


def _dead_letters_unawaited(dead_letter_topic: Any) -> None:
    """By a client of their own, beside the transaction, and a moment later."""
    client: list[Any] = []

    def unawaited(self: Any, letters: Any, producer: Any) -> None:
        for letter in letters:
            settings = {**self._topics._client_settings, "message.max.bytes": 10**8}
            client[:] = client or [dead_letter_topic.Producer(settings)]
            value = dead_letter_topic._value(letter, self._largest_bytes(producer.client))
            threading.Timer(2.0, client[0].produce, (self._topic, value, letter.lane.encode(), 0)).start()

    dead_letter_topic.DeadLetterTopic.send = unawaited


def _refused_skipped(commit: Any) -> None:
    """What the sink refuses is counted as written."""
    write = commit.Delivery._write

    def skipped(self: Any, *arguments: Any, **named: Any) -> None:
        sink = self._sink
        self._sink = _Uncritical(sink)
        try:
            write(self, *arguments, **named)
        finally:
            self._sink = sink

    commit.Delivery._write = skipped


class _Uncritical:
    def __init__(self, sink: Any) -> None:
        self._sink = sink

    def write(self, *arguments: Any, **named: Any) -> Any:
        return replace(self._sink.write(*arguments, **named), rejected=())


def _hole_ignored(ingest: Any) -> None:
    def takes_everything(self: Any, offset: int, header: Any) -> bool:
        self.epoch, self.epoch_nonce, self.seq = header.epoch, header.epoch_nonce, header.seq
        return True

    ingest.Ingest._is_next = takes_everything


def _cursor_outside_the_transaction(transactional: Any) -> None:
    """Events are committed, and where the lane reads on is told later: now and then."""
    commit = transactional.TransactionalProducer.commit
    turns = [0]

    def careless(self: Any, cursor: Any) -> None:
        turns[0] += 1
        if turns[0] % 20 == 1 or not self._waiting:
            commit(self, cursor)
            return
        self._begin(self._producer)
        self._send_waiting(self._producer)
        self._producer.commit_transaction(30)
        self._in_transaction = False

    transactional.TransactionalProducer.commit = careless


_WRITER = "tidegate_processor.sinks.shared.transactional"
PLANTS: Mapping[str, tuple[Plant, ...]] = {
    "confirm on receive": (Plant("tidegate_reader.pipeline", _confirm_on_receive),),
    "filter by change LSN": (Plant("tidegate_reader.framer", _filter_by_change_lsn),),
    "keepalive confirmed with work in flight": (
        Plant("tidegate_reader.keepalives", _remember_keepalives),
        Plant("tidegate_reader.pipeline", _confirm_keepalives),
    ),
    "commit_lsn for end_lsn": (Plant("tidegate_reader.transactions", _commit_lsn_for_end_lsn),),
    "ack before sink commit": (Plant("tidegate_processor.stage", _ack_before_commit),),
    "failed produce swallowed": (Plant("tidegate_reader.publisher", _failed_produce_swallowed),),
    "missing Redis key = sink ignored": (Plant("tidegate_reader.gate", _missing_ack_ignored),),
    "TOAST value made null": (Plant(_WRITER, _tampering(_null_for_unchanged)),),
    "two events of a key swapped": (Plant(_WRITER, _tampering(_swapped)),),
    "last event of a batch dropped": (Plant(_WRITER, _tampering(lambda batch: batch[:-1] if batch[1:] else batch)),),
    "refused event skipped": (Plant("tidegate_processor.commit", _refused_skipped),),
    "random event ids": (Plant(_WRITER, _tampering(_random_ids)),),
    "dead letter dropped": (Plant("tidegate_processor.sinks.shared.dead_letter_topic", _dead_letters_dropped),),
    "dead letter not awaited": (Plant("tidegate_processor.sinks.shared.dead_letter_topic", _dead_letters_unawaited),),
    "hole in seq ignored": (Plant("tidegate_processor.ingest", _hole_ignored),),
    "cursor outside the transaction": (Plant(_WRITER, _cursor_outside_the_transaction),),
}
