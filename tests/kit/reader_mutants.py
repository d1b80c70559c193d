"""Readers that are wrong in one way each, to be run as a process: `reader_mutants.py NAME --config …`.

A trial is only believed if it notices what it was made for: each mutant names the trial that must.
"""

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from tidegate.checkpoint import redis_store
from tidegate.contracts.ack import decode_ack
from tidegate.contracts.frame import FrameKind
from tidegate.errors import TransientError
from tidegate.lsn import Lsn
from tidegate_reader import feedback, framer, gate, publisher
from tidegate_reader.framer import Framer
from tidegate_reader.frames import Sealer
from tidegate_reader.gate import Gate
from tidegate_reader.keepalives import Keepalives
from tidegate_reader.publisher import Publisher
from tidegate_reader.transactions import TransactionTracker

Plant = Callable[[], None]
MUTANTS: dict[str, tuple[str, Plant]] = {}
"""Name → the trial that kills it, and how it is planted."""


def mutant(trial: str) -> Callable[[Plant], Plant]:
    def keep(plant: Plant) -> Plant:
        MUTANTS[plant.__name__] = (trial, plant)
        return plant

    return keep


@mutant("gate")
def confirms_on_receive() -> None:
    _confirm(lambda levels: levels.received)


@mutant("gate")
def confirms_keepalives_with_work_in_flight() -> None:
    heard, hear = [Lsn(0)], Keepalives.hear

    def noting(self: Keepalives, data: Any, *, in_transaction: bool) -> Lsn:
        heard[0] = max(heard[0], hear(self, data, in_transaction=in_transaction))
        return heard[0]

    Keepalives.hear = noting  # type: ignore[method-assign]
    _confirm(lambda levels: max(levels.confirmed, heard[0]))


def _confirm(flush: Callable[[feedback.Levels], Lsn]) -> None:
    status = feedback._status
    feedback._status = lambda levels, **more: status(feedback.Levels(levels.received, flush(levels)), **more)


@mutant("gate")
def ignores_a_sink_without_an_ack() -> None:
    def open_(self: Gate) -> None:
        known = [acked for acked in self._acked.values() if acked is not None]
        self._confirmed = max(self._confirmed, min([self._durable, *known])) if known else self._confirmed

    gate.Gate._open = open_  # type: ignore[method-assign]


@mutant("gate")
def believes_acks_of_any_generation() -> None:
    redis_store._believed = lambda value, sink, _: decode_ack(
        value, sink=sink, generation=json.loads(value)["generation"]
    )


@mutant("interleaved")
def skips_by_the_lsn_of_a_change() -> None:
    """What lies below the end of the raw topic is taken for sent."""
    begin, step = Framer.__init__, Framer._step

    def starting(self: Framer, *arguments: Any, safe_lsn: Lsn, **more: Any) -> None:
        begin(self, *arguments, safe_lsn=safe_lsn, **more)
        self.from_lsn = safe_lsn  # type: ignore[attr-defined]

    def skipping(self: Framer, data: Any, now: float) -> None:
        is_row = len(data) > framer.ENVELOPE_BYTES and data[framer.ENVELOPE_BYTES] in b"IUD"
        if is_row and int.from_bytes(data[1:9], "big") < self.from_lsn:  # type: ignore[attr-defined]
            self._transaction.count()
        else:
            step(self, data, now)

    def one_by_one(self: Framer, pieces: Iterator[Any]) -> Any:
        return next(pieces, None)

    Framer.__init__, Framer._step, Framer._take_rows = starting, skipping, one_by_one  # type: ignore[method-assign]


@mutant("order")
def takes_commit_lsn_for_end_lsn() -> None:
    commit = TransactionTracker.commit

    def early(self: TransactionTracker, message: bytes) -> Any:
        position, _, skip = commit(self, message)
        return position, position.commit_lsn, skip

    TransactionTracker.commit = early  # type: ignore[method-assign]


@mutant("order")
def drops_the_last_row_of_a_frame() -> None:
    _rows_of_frames(lambda places: places[:-1])


@mutant("order")
def swaps_two_rows() -> None:
    _rows_of_frames(lambda places: [*places[:-2], *reversed(places[-2:])])


def _rows_of_frames(change: Callable[[list[int]], list[int]]) -> None:
    seal = Sealer.seal

    def changed(self: Sealer, kind: FrameKind, now: float, span: Any, *, body: Any = (), **more: Any) -> None:
        places = [at for at in range(1, len(body), 2) if bytes(body[at][:1]) == b"I"]
        kept = iter(change(places))
        pieces: list[Any] = []
        for at in range(1, len(body), 2):
            taken = next(kept, None) if at in places else at
            pieces += [] if taken is None else body[taken - 1 : taken + 1]
        seal(self, kind, now, span, body=pieces if len(body) > 1 else body, **more)

    Sealer.seal = changed  # type: ignore[method-assign]


@mutant("too_large")
def swallows_a_producer_error() -> None:
    outcome, settled = publisher._outcome, Publisher._settled

    async def swallowing(future: Any, seconds: float) -> int:
        try:
            return await outcome(future, seconds)
        except TransientError:
            return -1

    def going_on(self: Publisher, frame: Any, offset: int) -> None:
        if offset >= 0:
            settled(self, frame, offset)

    publisher._outcome, Publisher._settled = swallowing, going_on  # type: ignore[assignment, method-assign]


@mutant("second_writer")
def ignores_where_a_frame_landed() -> None:
    def anywhere(self: Publisher, frame: Any, offset: int) -> None:
        self.next_offset = offset + 1

    Publisher._settled = anywhere  # type: ignore[method-assign]


if __name__ == "__main__":
    from tidegate_reader.main import main

    MUTANTS[sys.argv[1]][1]()
    main(sys.argv[2:])
