"""How near the slot is to what the server will keep for it, when it gets there, and who holds it back. Pure.

| share of the limit held | zone | back again below |
| --- | --- | --- |
| from 0.5 | yellow | 0.4 |
| from 0.8 | red | 0.7 |

The limit is what the server says (`safe_wal_size`), or the configured budget if that is less; 10 GiB where neither is
there. A zone stops nothing: what is acked is confirmed as ever, and what is not is never forgotten.
"""

from collections import deque
from dataclasses import dataclass
from enum import IntEnum

from tidegate.lsn import Lsn, format_lsn

SEGMENT_BYTES = 16 * 2**20
"""Less than this is held by every slot, all the time (the default wal_segment_size)."""
WINDOW_SECONDS = 300.0
_LEAST_WINDOW_SECONDS = 10.0
_DEFAULT_BUDGET_BYTES = 10 * 2**30


class Zone(IntEnum):
    GREEN = 0
    YELLOW = 1
    RED = 2


_ENTERED = {Zone.YELLOW: 0.5, Zone.RED: 0.8}
_LEFT = {Zone.YELLOW: 0.4, Zone.RED: 0.7}


@dataclass(frozen=True, slots=True)
class Held:
    """As the server shows it."""

    end: Lsn
    restart: Lsn
    confirmed: Lsn
    safe_wal_bytes: int | None

    @property
    def held_bytes(self) -> int:
        return max(0, self.end - self.restart)


@dataclass(frozen=True, slots=True)
class Pin:
    """A transaction that is not over: no slot's restart_lsn passes the point where it began."""

    what: str
    age_seconds: float


@dataclass(frozen=True, slots=True)
class Verdict:
    zone: Zone
    holder: str
    """In words; empty if nothing worth a word is held."""
    dies_in_seconds: float | None
    """Until the server gives the slot up, if WAL grows on as it did; none if it does not, or has no limit."""


class WalSafety:
    def __init__(self, budget_bytes: int | None) -> None:
        self._budget_bytes = budget_bytes
        self._zone = Zone.GREEN
        self._seen: deque[tuple[float, int]] = deque()

    def judge(self, held: Held, now: float, *, sink: str | None, pins: tuple[Pin, ...], other: str | None) -> Verdict:
        """`sink`: whom the gate waits for; `other`: a slot that holds more than ours."""
        allowed = None if held.safe_wal_bytes is None else held.held_bytes + max(0, held.safe_wal_bytes)
        limits = [each for each in (allowed, self._budget_bytes) if each is not None]
        limit = min(limits, default=_DEFAULT_BUDGET_BYTES)
        share = held.held_bytes / limit if limit else 1.0
        self._zone = next_zone(self._zone, share)
        self._seen.append((now, held.held_bytes))
        while now - self._seen[0][0] > WINDOW_SECONDS:
            self._seen.popleft()
        left = None if held.safe_wal_bytes is None else max(0, held.safe_wal_bytes)
        return Verdict(self._zone, holder(held, sink, pins, other), self._dies_in(left))

    def _dies_in(self, left_bytes: int | None) -> float | None:
        (first_at, first), (last_at, last) = self._seen[0], self._seen[-1]
        if left_bytes is None or last_at - first_at < _LEAST_WINDOW_SECONDS or last <= first:
            return None
        return left_bytes / ((last - first) / (last_at - first_at))


def next_zone(zone: Zone, share: float) -> Zone:
    highest = max((each for each, at in _ENTERED.items() if share >= at), default=Zone.GREEN)
    if highest >= zone:
        return highest
    while zone is not Zone.GREEN and share < _LEFT[zone]:
        zone = Zone(zone - 1)
    return zone


def holder(held: Held, sink: str | None, pins: tuple[Pin, ...], other: str | None) -> str:
    """Who has to move before the server may let WAL go, the likeliest first."""
    reasons = []
    if held.end - held.confirmed > SEGMENT_BYTES:
        reasons.append(f"sink {sink} has not acked" if sink else "the reader is catching up")
    if held.confirmed - held.restart > SEGMENT_BYTES:
        oldest = max(pins, key=lambda pin: pin.age_seconds, default=None)
        if oldest:
            reasons.append(f"{oldest.what}, open for {oldest.age_seconds:.0f} s")
        else:
            reasons.append(f"decoding restarts at {format_lsn(held.restart)}, until the next checkpoint moves it")
    if other:
        reasons.append(f"slot {other} holds more than ours")
    return "; ".join(reasons)
