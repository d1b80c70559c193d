"""What may be confirmed to the source: the one place where it is decided, and pure.

| acks of required sinks | confirmed | holder |
| --- | --- | --- |
| one is missing | stays | the first without one |
| all there, lowest below what is in the raw topic | rises to the lowest | the lowest |
| all there, none below it | rises to what is in the raw topic | none |
| none required | rises to what is in the raw topic | none |
| another set is required: who joins has no ack, or one below confirmed | stays until it has reached it | who joins |
| another set is required: the lowest is not in it any more | rises to the lowest of those that are | the lowest |
| the server has yet to send the raw topic's last transaction again | not beyond its commit LSN | |
| the server has yet to pass what the raw topic covers behind that | not beyond what it has passed | |

Invariant: confirmed ≤ min(safe_lsn of required acks), confirmed ≤ what this process knows is in the raw topic, and
confirmed never falls; the start value, which is the slot's own, is taken unseen, and so is where confirmed stands when
a sink joins. What the raw topic and sinks
have counts for this server once it has shown that it tells the same history (`history.py`).
"""

from collections.abc import Iterable, Mapping, Sequence

from tidegate.contracts.ack import Ack
from tidegate.lsn import Lsn
from tidegate_reader.history import HistoryCheck


class Gate:
    def __init__(
        self, required: Sequence[str], *, confirmed: Lsn, durable: Lsn, history: HistoryCheck | None = None
    ) -> None:
        self._acked: dict[str, Lsn | None] = dict.fromkeys(required)
        self._confirmed = confirmed
        self._durable = durable
        self._history = history

    @property
    def confirmed(self) -> Lsn:
        return self._confirmed

    @property
    def holder(self) -> str | None:
        """The required sink that everybody waits for."""
        for sink, acked in self._acked.items():
            if acked is None:
                return sink
        lowest = min(self._acked, key=lambda sink: self._acked[sink] or 0, default=None)
        return lowest if lowest is not None and (self._acked[lowest] or 0) < self._durable else None

    def produced(self, safe_lsn: Lsn) -> None:
        """A frame is in the raw topic, acknowledged by the broker."""
        self._durable = max(self._durable, safe_lsn)
        self._open()

    def acked(self, acks: Mapping[str, Ack]) -> None:
        """As read. An ack that went back (Redis restored from a backup) changes nothing."""
        for sink, before in self._acked.items():
            if (ack := acks.get(sink)) is not None:
                self._acked[sink] = ack.safe_lsn if before is None else max(before, ack.safe_lsn)
        self._open()

    def require(self, sinks: Iterable[str], acks: Mapping[str, Ack]) -> None:
        """These count from now on. What is known of one that counted before stays known."""
        before = self._acked
        self._acked = {sink: before.get(sink) for sink in sinks}
        self.acked(acks)

    def _open(self) -> None:
        lowest = self._durable if self._history is None else min(self._durable, self._history.ceiling)
        for acked in self._acked.values():
            if acked is None:
                return
            lowest = min(lowest, acked)
        self._confirmed = max(self._confirmed, lowest)
