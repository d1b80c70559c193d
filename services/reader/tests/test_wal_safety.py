"""Zones with hysteresis, the forecast, and who is named as the one that holds WAL."""

import pytest

from tidegate.lsn import Lsn
from tidegate_reader.wal_safety import Held, Pin, WalSafety, Zone, holder, next_zone

GIB = 2**30
MIB = 2**20


@pytest.mark.parametrize(
    ("zone", "share", "expected"),
    [
        (Zone.GREEN, 0.49, Zone.GREEN),
        (Zone.GREEN, 0.5, Zone.YELLOW),
        (Zone.GREEN, 0.95, Zone.RED),
        (Zone.YELLOW, 0.41, Zone.YELLOW),
        (Zone.YELLOW, 0.39, Zone.GREEN),
        (Zone.YELLOW, 0.8, Zone.RED),
        (Zone.RED, 0.71, Zone.RED),
        (Zone.RED, 0.69, Zone.YELLOW),
        (Zone.RED, 0.1, Zone.GREEN),
    ],
)
def test_a_zone_is_left_later_than_it_is_entered(zone: Zone, share: float, expected: Zone) -> None:
    assert next_zone(zone, share) is expected


def judged(safety: WalSafety, held_bytes: int, safe: int | None, now: float) -> tuple[Zone, float | None]:
    held = Held(end=Lsn(held_bytes + GIB), restart=Lsn(GIB), confirmed=Lsn(GIB), safe_wal_bytes=safe)
    verdict = safety.judge(held, now, sink="topics", pins=(), other=None)
    return verdict.zone, verdict.dies_in_seconds


def test_the_servers_limit_counts_and_the_forecast_follows_the_growth() -> None:
    safety = WalSafety(budget_bytes=10 * GIB)
    assert judged(safety, 100 * MIB, 900 * MIB, now=0.0) == (Zone.GREEN, None)
    assert judged(safety, 600 * MIB, 400 * MIB, now=50.0) == (Zone.YELLOW, pytest.approx(40.0))
    assert judged(safety, 850 * MIB, 150 * MIB, now=100.0) == (Zone.RED, pytest.approx(20.0))
    assert judged(safety, 10 * MIB, 990 * MIB, now=110.0) == (Zone.GREEN, None)


def test_without_a_limit_the_budget_counts_and_no_death_is_forecast() -> None:
    safety = WalSafety(budget_bytes=GIB)
    assert judged(safety, 100 * MIB, None, now=0.0) == (Zone.GREEN, None)
    assert judged(safety, 900 * MIB, None, now=60.0) == (Zone.RED, None)


def test_a_budget_below_the_servers_limit_counts_and_death_comes_by_the_limit() -> None:
    safety = WalSafety(budget_bytes=GIB)
    assert judged(safety, 100 * MIB, 9 * GIB, now=0.0) == (Zone.GREEN, None)
    assert judged(safety, 600 * MIB, 8500 * MIB, now=50.0) == (Zone.YELLOW, pytest.approx(850.0))


def test_where_nobody_says_anything_ten_gibibytes_count() -> None:
    assert judged(WalSafety(None), 4 * GIB, None, now=0.0) == (Zone.GREEN, None)
    assert judged(WalSafety(None), 9 * GIB, None, now=0.0) == (Zone.RED, None)


def test_old_growth_is_forgotten() -> None:
    safety = WalSafety(budget_bytes=GIB)
    judged(safety, 100 * MIB, 900 * MIB, now=0.0)
    judged(safety, 300 * MIB, 700 * MIB, now=10.0)
    assert judged(safety, 300 * MIB, 700 * MIB, now=400.0) == (Zone.GREEN, None)


AT = Lsn(GIB)
FAR = Lsn(GIB + 100 * MIB)
PINS = (Pin("transaction of pid 7", 60.0), Pin("prepared transaction 'x'", 3600.0))


@pytest.mark.parametrize(
    ("held", "sink", "pins", "other", "expected"),
    [
        (Held(AT, AT, AT, None), "topics", (), None, ""),
        (Held(FAR, AT, AT, None), "topics", (), None, "sink topics has not acked"),
        (Held(FAR, AT, AT, None), None, (), None, "the reader is catching up"),
        (Held(FAR, AT, FAR, None), None, PINS, None, "prepared transaction 'x', open for 3600 s"),
        (Held(FAR, AT, FAR, None), None, PINS[:1], None, "transaction of pid 7, open for 60 s"),
        (Held(AT, AT, AT, None), None, (), "old", "slot old holds more than ours"),
    ],
)
def test_who_holds_is_named(
    held: Held, sink: str | None, pins: tuple[Pin, ...], other: str | None, expected: str
) -> None:
    assert holder(held, sink, pins, other) == expected
