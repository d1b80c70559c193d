"""Acks in memory: the store of the tests and the simulator."""

from tidegate.checkpoint.store import AckOutcome, compare
from tidegate.contracts.ack import Ack


class MemoryAckStore:
    def __init__(self) -> None:
        self._acks: dict[tuple[str, str], Ack] = {}

    def write(self, ack: Ack) -> AckOutcome:
        key = (ack.generation, ack.sink)
        outcome = compare(self._acks.get(key), ack)
        if outcome is AckOutcome.ACCEPTED:
            self._acks[key] = ack
        return outcome

    def read(self, generation: str, sink: str) -> Ack | None:
        return self._acks.get((generation, sink))
