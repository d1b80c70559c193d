"""What is said of a slot that the server has given up: what the reader will do about it, as it is told to."""

import asyncio
from typing import Any

import pytest

from tidegate.config.source import OnLost, PostgresSource
from tidegate.preflight.findings import Severity
from tidegate.preflight.slot import examine_slot

ROW = {
    "slot_name": "mine",
    "plugin": "pgoutput",
    "database": "shop",
    "active_pid": None,
    "confirmed_flush_lsn": "0/1",
    "restart_lsn": None,
}
LOST = ROW | {"wal_status": "lost", "invalidation_reason": "wal_removed"}


@pytest.mark.parametrize(
    ("slot", "says"),
    [
        ({}, "will say LOST (exit 3)"),
        ({"on_lost": OnLost.RESNAPSHOT}, "read all tables again"),
        ({"on_lost": OnLost.RESNAPSHOT, "create": False}, "will say LOST (exit 3)"),
    ],
)
def test_a_slot_that_is_given_up_is_no_refusal_and_says_what_follows(slot: dict[str, Any], says: str) -> None:
    source = PostgresSource.model_validate(
        {
            "host": "h",
            "database": "shop",
            "user": "u",
            "slot": {"name": "mine", **slot},
            "publication": {"tables": ["public.orders"]},
        }
    )

    async def ask(*_: object) -> list[tuple[Any, ...]]:
        return [(LOST,)]

    _, [finding] = asyncio.run(examine_slot(ask, source, 180_004))

    assert (finding.severity, finding.code) == (Severity.CAUTION, "SLOT_INVALIDATED")
    assert says in finding.cause
