"""Brings the gate what it decides on, and carries its decision to feedback, status and metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidegate.contracts.ack import Ack
from tidegate.contracts.lineage import Lineage
from tidegate.lsn import Lsn
from tidegate_reader.feedback import Feedback
from tidegate_reader.frames import SentFrame
from tidegate_reader.gate import Gate
from tidegate_reader.metrics import ReaderMetrics
from tidegate_reader.progress import Progress


class Keeper:
    def __init__(self, gate: Gate, feedback: Feedback, progress: Progress, metrics: ReaderMetrics) -> None:
        self._gate, self._feedback = gate, feedback
        self._progress, self._metrics = progress, metrics
        self.acks: dict[str, Ack] = {}
        """The highest of each sink: one that went back, or is missing now, changes nothing."""
        self.told: Mapping[str, Ack] = {}
        """What Redis said last, which is all that a lane can learn of itself."""

    def durable(self, frame: SentFrame, offset: int) -> None:
        self._gate.produced(frame.safe_lsn)
        self._progress.produced_lsn = max(self._progress.produced_lsn, frame.safe_lsn)
        self._progress.raw_offset = offset
        self._progress.frames += 1
        self._progress.changes += frame.changes
        self._progress.bytes += frame.size
        self._metrics.frames.add()
        self._metrics.changes.add(frame.changes)
        self._metrics.produced_bytes.add(frame.size)
        self._settle()

    def updated(self, lineage: Lineage) -> Lineage:
        """With the sinks that have still acked nothing."""
        return replace(lineage, unacked=tuple(sink for sink in lineage.unacked if sink not in self.acks))

    @property
    def confirmed(self) -> Lsn:
        return self._gate.confirmed

    def require(self, sinks: Sequence[str]) -> None:
        self._gate.require(sinks, self.acks)
        self._metrics.require(sinks)
        self._settle()

    def in_flight(self, in_flight_bytes: int) -> None:
        self._progress.in_flight_bytes = in_flight_bytes

    def acked(self, acks: Mapping[str, Ack]) -> None:
        self.told = acks
        for sink, ack in acks.items():
            known = self.acks.get(sink)
            self.acks[sink] = ack if known is None or ack.safe_lsn >= known.safe_lsn else known
        self._gate.acked(acks)
        self._settle()

    def _settle(self) -> None:
        self._progress.gate_holder = self._gate.holder
        if self._gate.confirmed > self._progress.confirmed_lsn:
            self._progress.confirmed_lsn = self._gate.confirmed
            self._feedback.confirmed_grew()
