"""Planted bugs: what the simulator has to catch to be believed.

Each is put in by wrapping production code, or a model driver where the real driver has a loop of its own, for as long
as the context lasts.
"""

import random
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from chaos.simulator import lane, reader, sink
from chaos.simulator.kafka import Outcome
from kit import reference

import tidegate.events
import tidegate_processor.ingest
import tidegate_reader.gate
import tidegate_reader.keepalives
import tidegate_reader.opening
import tidegate_reader.required_sinks
import tidegate_reader.resume
import tidegate_reader.transactions
from tidegate.contracts.branch import Branch
from tidegate.contracts.control import Command, LaneControl
from tidegate.lsn import Lsn
from tidegate_reader.feedback import Levels

_Patch = tuple[object, str, Any]


@contextmanager
def planted(name: str) -> Iterator[None]:
    patches = MUTANTS[name]()
    before = [(owner, attribute, getattr(owner, attribute)) for owner, attribute, _ in patches]
    try:
        for owner, attribute, bug in patches:
            setattr(owner, attribute, bug)
        yield
    finally:
        for owner, attribute, real in reversed(before):
            setattr(owner, attribute, real)


def _confirm_on_receive() -> list[_Patch]:
    return [(reader, "Levels", lambda received, confirmed: Levels(received, received))]


def _keepalive_past_work_in_flight() -> list[_Patch]:
    """Confirmed at once, instead of travelling through the raw topic behind the changes before it."""
    hear = tidegate_reader.keepalives.Keepalives.hear
    heard = [Lsn(0)]

    def remembers(self: Any, data: Any, *, in_transaction: bool) -> Lsn:
        heard[0] = hear(self, data, in_transaction=in_transaction)
        return heard[0]

    keepalives = tidegate_reader.keepalives.Keepalives
    passes_on = lambda received, confirmed: Levels(received, max(confirmed, min(heard[0], received)))  # noqa: E731
    return [(keepalives, "hear", remembers), (reader, "Levels", passes_on)]


def _filter_by_change_lsn() -> list[_Patch]:
    decode = reference.decode_changes

    def filtered(frame: Any, after: Any) -> Any:
        return (change for change in decode(frame, after) if change.lsn > after.commit_lsn)

    return [(reference, "decode_changes", filtered)]


def _commit_lsn_for_end_lsn() -> list[_Patch]:
    tracker = tidegate_reader.transactions.TransactionTracker
    commit = tracker.commit

    def too_low(self: Any, message: bytes) -> Any:
        position, _, skip = commit(self, message)
        return position, position.commit_lsn, skip

    return [(tracker, "commit", too_low)]


def _ack_before_commit() -> list[_Patch]:
    turn = lane.Worker._obey

    def early(self: Any) -> None:
        if self._delivery is not None:
            self._link.acknowledge(self._delivery.ack())
        turn(self)

    return [(lane.Worker, "_obey", early)]


def _failed_produce_swallowed() -> list[_Patch]:
    settle = reader.LogPublisher.settle_one

    def swallows(self: Any) -> bool:
        if self._sent and self._sent[0][1].outcome is Outcome.FAILED:
            frame, _ = self._sent.popleft()
            self._on_durable(frame, self.next_offset - 1)
            return True
        return settle(self)

    return [(reader.LogPublisher, "settle_one", swallows)]


def _missing_ack_ignored() -> list[_Patch]:
    acked = tidegate_reader.gate.Gate.acked

    def ignores(self: Any, acks: Mapping[str, Any]) -> None:
        self._acked = {name: value for name, value in self._acked.items() if value is not None or name in acks}
        acked(self, acks)

    return [(tidegate_reader.gate.Gate, "acked", ignores)]


def _no_generation_check() -> list[_Patch]:
    new = tidegate_reader.resume._generation

    def any_generation(source: Any, log: Any, lineage: Any, born: Any) -> Any:
        return log.tail.generation if log.tail else new(source, bytes(16))

    return [
        (tidegate_reader.opening, "generation_of", any_generation),
        (tidegate_reader.opening, "known_generation", lambda source, log, lineage: None),
        (tidegate_reader.opening, "branch_of", lambda server, generation, log, *_: _branch(server, log)),
        (tidegate_processor.ingest.Ingest, "_check_generation", _believe),
    ]


def _branch(server: Any, log: Any) -> Branch:
    return Branch(server.timeline, None, server.timeline, None, log.end)


def _believe(self: Any, frame: Any) -> None:
    self.generation = self.generation or frame.header.generation.id


def _swap_two_events_of_a_key() -> list[_Patch]:
    return [(sink.Sink, "write", _tampering(_swapped))]


def _drop_last_event() -> list[_Patch]:
    return [(sink.Sink, "write", _tampering(lambda events: events[:-1]))]


def _random_event_ids() -> list[_Patch]:
    dice = random.Random(0)

    def drawn(self: Any, ordinal: int, sub: int = 0) -> str:
        return str(uuid.UUID(int=dice.getrandbits(128)))

    return [(tidegate.events.EventIds, "id", drawn)]


def _dead_letter_dropped() -> list[_Patch]:
    return [(sink.Sink, "write_dead_letters", lambda self, letters: None)]


def _no_fence() -> list[_Patch]:
    return [(sink.SinkServer, "fence", lambda self: self.token)]


def _hole_ignored() -> list[_Patch]:
    def takes_everything(self: Any, offset: int, header: Any) -> bool:
        self.epoch, self.epoch_nonce, self.seq = header.epoch, header.epoch_nonce, header.seq
        return True

    return [(tidegate_processor.ingest.Ingest, "_is_next", takes_everything)]


def _foreign_ack_believed() -> list[_Patch]:
    """The highest safe_lsn of all sinks stands for each of them: a reply meant for another field."""
    acked = tidegate_reader.gate.Gate.acked

    def believes(self: Any, acks: Mapping[str, Any]) -> None:
        highest = max(acks.values(), key=lambda ack: ack.safe_lsn, default=None)
        acked(self, dict.fromkeys(acks, highest) if highest else acks)

    return [(tidegate_reader.gate.Gate, "acked", believes)]


def _forwarded_start_not_noticed() -> list[_Patch]:
    """What START_REPLICATION asked for is taken for where the server starts."""
    start = property(lambda self: self.started or self.confirmed)
    return [(tidegate_reader.resume.SlotStart, "lsn", start)]


def _joining_not_counted() -> list[_Patch]:
    """The gate goes on by those that it has known from the start."""
    require = tidegate_reader.gate.Gate.require

    def forgets(self: Any, sinks: Any, acks: Mapping[str, Any]) -> None:
        require(self, [name for name in sinks if name in self._acked], acks)

    return [(tidegate_reader.gate.Gate, "require", forgets)]


def _let_go_unsaid() -> list[_Patch]:
    """The gate goes by the file at once, and the lineage by what it was: a start believes that it is waited for."""

    async def changes(self: Any, config: Any) -> bool:
        self._keeper.require(tuple(config.required_sinks))
        return True

    return [(tidegate_reader.required_sinks.RequiredSinks, "change", changes)]


def _let_go_unrecorded() -> list[_Patch]:
    async def nothing(*_: Any) -> None:
        return

    return [(tidegate_reader.required_sinks, "tombstone", nothing)]


def _stop_of_long_ago_obeyed() -> list[_Patch]:
    """And the driver, who goes by what the stage says of itself, takes it for one that works."""
    failed = lane.Lane._failed

    def stands(self: Any, error: Any) -> None:
        if error.code != "LANE_DRAINED":
            failed(self, error)

    any_stop = lambda self, incarnation: self.command is Command.STOP  # noqa: E731
    return [(LaneControl, "stops", any_stop), (lane.Lane, "_failed", stands)]


def _tampering(change: Callable[[list[Any]], list[Any]]) -> Callable[..., Any]:
    write = sink.Sink.write

    def tampers(self: Any, changes: Any, context: Any) -> Any:
        before = len(self._batch.events)
        receipt = write(self, changes, context)
        self._batch.events[before:] = change(self._batch.events[before:])
        return receipt

    return tampers


def _swapped(events: list[Any]) -> list[Any]:
    for at, event in enumerate(events):
        for later in range(at + 1, len(events)):
            if events[later].key == event.key and event.key is not None:
                events[at], events[later] = events[later], event
                return events
    return events


MUTANTS: dict[str, Callable[[], list[_Patch]]] = {
    "confirm on receive": _confirm_on_receive,
    "keepalive confirmed with work in flight": _keepalive_past_work_in_flight,
    "filter by change LSN": _filter_by_change_lsn,
    "commit_lsn for end_lsn": _commit_lsn_for_end_lsn,
    "ack before sink commit": _ack_before_commit,
    "failed produce swallowed": _failed_produce_swallowed,
    "missing Redis key = sink ignored": _missing_ack_ignored,
    "no generation check": _no_generation_check,
    "two events of a key swapped": _swap_two_events_of_a_key,
    "last event of a batch dropped": _drop_last_event,
    "random event ids": _random_event_ids,
    "dead letter dropped": _dead_letter_dropped,
    "no fence at the sink": _no_fence,
    "STOP of long ago obeyed": _stop_of_long_ago_obeyed,
    "hole in seq ignored": _hole_ignored,
    "ack of another sink believed": _foreign_ack_believed,
    "joining sink not counted": _joining_not_counted,
    "removed sink let go, and nobody told": _let_go_unsaid,
    "removed sink let go without a record": _let_go_unrecorded,
    "forwarded start not noticed": _forwarded_start_not_noticed,
}
