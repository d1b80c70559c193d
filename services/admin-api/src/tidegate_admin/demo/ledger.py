"""The books: what was written against what was delivered, change by change; pure.

A change is known by its transaction and its place in it, which every event carries. It is entered before the commit,
because the event may be there before the commit's answer is.

| an event's (xid, seq) | verdict |
| --- | --- |
| entered, not seen yet, and says the same | delivered; out of order if a later one of its key came first |
| entered, but the event says something else | wrong |
| seen before | duplicate |
| of a transaction that was rolled back | phantom |
| none of these | foreign: somebody else writes here, or an earlier run did |

Invariant: written = delivered + lost at any time, and the books stay small however long the demo runs.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tidegate_admin.demo.shop import Change, Key

REMEMBERED = 200_000
"""Delivered changes of which a second delivery is recognised."""
XID_BITS = 0xFFFF_FFFF


class Verdict(StrEnum):
    DELIVERED = "delivered"
    OUT_OF_ORDER = "out_of_order"
    WRONG = "wrong"
    DUPLICATE = "duplicate"
    PHANTOM = "phantom"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Event:
    xid: int
    seq: int
    change: Change
    latency_seconds: float


@dataclass(frozen=True, slots=True)
class Balance:
    written: int
    delivered: int
    lost: int
    duplicates: int
    out_of_order: int
    wrong: int
    phantoms: int
    foreign: int

    @property
    def is_even(self) -> bool:
        """Duplicates are allowed by at-least-once; they are counted and shown."""
        return not (self.lost or self.out_of_order or self.wrong or self.phantoms)


class Ledger:
    """Written by the writer's thread and the consumer's."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._lock = threading.Lock()
        self._due: dict[tuple[int, int], tuple[int, Change]] = {}
        self._seen: dict[tuple[int, int], None] = {}
        self._rolled_back: set[int] = set()
        self._newest: dict[tuple[str, Key], int] = {}
        self._remembered = remembered
        self._written = 0
        self._counts = dict.fromkeys(Verdict, 0)

    def enter(self, xid: int, changes: Sequence[Change]) -> None:
        with self._lock:
            for seq, change in enumerate(changes, 1):
                self._written += 1
                self._due[(xid & XID_BITS, seq)] = (self._written, change)

    def rolled_back(self, xid: int) -> None:
        with self._lock:
            self._rolled_back.add(xid & XID_BITS)

    def deliver(self, event: Event) -> Verdict:
        with self._lock:
            verdict = self._judge(event)
            self._counts[verdict] += 1
            return verdict

    @property
    def due(self) -> int:
        return len(self._due)

    @property
    def delivered(self) -> int:
        return self._counts[Verdict.DELIVERED] + self._counts[Verdict.OUT_OF_ORDER]

    def balance(self) -> Balance:
        with self._lock:
            return Balance(
                written=self._written,
                delivered=self.delivered,
                lost=len(self._due),
                duplicates=self._counts[Verdict.DUPLICATE],
                out_of_order=self._counts[Verdict.OUT_OF_ORDER],
                wrong=self._counts[Verdict.WRONG],
                phantoms=self._counts[Verdict.PHANTOM],
                foreign=self._counts[Verdict.FOREIGN],
            )

    def _judge(self, event: Event) -> Verdict:
        place = (event.xid, event.seq)
        if place in self._seen:
            return Verdict.DUPLICATE
        if event.xid in self._rolled_back:
            return Verdict.PHANTOM
        entered = self._due.get(place)
        if entered is None:
            return Verdict.FOREIGN
        number, change = entered
        if change != event.change:
            return Verdict.WRONG
        del self._due[place]
        self._remember(place)
        return self._ordered(number, change)

    def _ordered(self, number: int, change: Change) -> Verdict:
        key = (change.table, change.key)
        if self._newest.get(key, 0) > number:
            return Verdict.OUT_OF_ORDER
        self._newest[key] = number
        if change.operation == "DELETE":
            del self._newest[key]  # identities are never given twice
        return Verdict.DELIVERED

    def _remember(self, place: tuple[int, int]) -> None:
        self._seen[place] = None
        if len(self._seen) > self._remembered:
            del self._seen[next(iter(self._seen))]


def quantile(values: Sequence[float], share: float) -> float | None:
    """None of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None
