"""How a run ended: the books, the latencies, and whether that is good."""

from dataclasses import dataclass

from tidegate_admin.demo.ledger import Balance, quantile
from tidegate_admin.demo.progress import DemoProgress
from tidegate_admin.ui.units import format_bytes, format_latency


@dataclass(frozen=True, slots=True)
class Summary:
    balance: Balance
    first_event_seconds: float | None
    p50_seconds: float | None
    p99_seconds: float | None
    wal_held_bytes: int | None
    restarts: int
    slot_caught_up: bool
    checked: bool
    """False when the run was cut off before everything could have arrived."""

    @property
    def is_good(self) -> bool:
        return self.checked and self.balance.is_even and self.balance.delivered > 0 and self.slot_caught_up

    @property
    def verdict(self) -> str:
        balance = self.balance
        if not self.checked:
            return f"cut off: {balance.lost} changes had not arrived yet and were not waited for"
        if balance.delivered == 0:
            return "NOTHING ARRIVED"
        if not balance.is_even:
            return f"NOT GOOD: {balance.lost} lost, {balance.out_of_order} out of order, {balance.wrong} wrong"
        if not self.slot_caught_up:
            return "NOT GOOD: everything arrived, but the slot has not been confirmed up to the last change"
        return "every change arrived, in order, and the slot has moved past the last of them"

    def lines(self) -> list[str]:
        balance = self.balance
        first, held = self.first_event_seconds, self.wal_held_bytes
        rows = (
            ("written", balance.written),
            ("delivered", balance.delivered),
            ("lost", balance.lost),
            ("duplicates", balance.duplicates),
            ("out of order", balance.out_of_order),
            ("wrong", balance.wrong),
            ("of rolled-back transactions", balance.phantoms),
            ("latency p50", format_latency(self.p50_seconds)),
            ("latency p99", format_latency(self.p99_seconds)),
            ("WAL held", "–" if held is None else format_bytes(held)),
            ("time to first event", "–" if first is None else f"{first:.1f} s"),
            ("restarts", self.restarts),
        )
        return [f"{name:28} {value}" for name, value in rows] + [self.verdict]


def summarise(progress: DemoProgress, *, checked: bool, slot_caught_up: bool) -> Summary:
    latencies = tuple(progress.latencies)
    return Summary(
        balance=progress.ledger.balance(),
        first_event_seconds=progress.first_event_seconds,
        p50_seconds=quantile(latencies, 0.5),
        p99_seconds=quantile(latencies, 0.99),
        wal_held_bytes=progress.wal_held_bytes,
        restarts=progress.restarts,
        slot_caught_up=slot_caught_up,
        checked=checked,
    )
