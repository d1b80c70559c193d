"""What lanes remember of rows as they really run, and that one which starts anew marks what it does not know."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from kit.fed_processor import START_SECONDS, FedProcessor, fed_processor
from kit.frames import ORDERS, row
from kit.topics import Inbox, inbox
from kit.wait import wait

from tidegate.pgoutput.messages import UNCHANGED, Update

pytestmark = pytest.mark.timeout(240)

LARGE = "large" * 300


def touch(fleet: FedProcessor) -> None:
    """An update that leaves the large value alone."""
    fleet.send(fleet.log.transaction(Update(ORDERS.relation_id, None, None, (b"1", UNCHANGED))), fleet.log.tick())


def said(box: Inbox, count: int) -> list[Any]:
    """Of each event the value, or that it is unchanged."""
    messages = box.until(lambda found: len(found) >= count, START_SECONDS, f"{count} events")
    payloads = [json.loads(message.value() or b"")["payload"] for message in messages]
    return [payload["row"].get("note", payload["unchanged"]) for payload in payloads]


def test_previous_values_are_those_of_the_row_and_marked_behind_a_restart(
    kafka, redis, prefix: str, tmp_path: Path
) -> None:
    """Of two lanes, which each have a worker of their own."""
    second = {"name": "second", "toast": "previous", "options": {"topic": "{pipeline}.second.{table}"}}
    servers = {"kafka": kafka.bootstrap, "redis_url": redis.url}
    with fed_processor(prefix, tmp_path, **servers, sinks=[{"toast": "previous"}, second]) as fleet:
        fleet.processor.start()
        with inbox(fleet.bootstrap, fleet.orders) as one, inbox(fleet.bootstrap, f"{prefix}.second.orders") as other:
            fleet.send(fleet.log.transaction(row(1, LARGE)), fleet.log.tick())
            for count in (1, 2, 3):
                assert [said(box, count)[-1] for box in (one, other)] == [LARGE, LARGE]
                touch(fleet)
            assert [said(box, 4)[-1] for box in (one, other)] == [LARGE, LARGE]
            wait(lambda: fleet.is_acked, 10, "all of it is acked")
            status = wait(fleet.status, 10, "the lane's status")
            os.kill(status.pid, signal.SIGKILL)
            touch(fleet)

            assert [said(box, 5)[-1] for box in (one, other)] == [["note"], LARGE]
