"""A worker that stands still without dying: nobody is told, and its lane goes on nevertheless."""

import contextlib
import os
import signal
from pathlib import Path

import pytest
from kit.fed_processor import START_SECONDS, fed_processor, numbers
from kit.topics import inbox
from kit.wait import wait

from tidegate.failpoints import VARIABLE, Failpoint

pytestmark = pytest.mark.timeout(240)


@pytest.mark.parametrize("trigger", ["realtime", "batch"])
def test_a_frozen_worker_is_noticed_and_its_lane_goes_on_with_nothing_lost_or_doubled(
    kafka, redis, prefix: str, tmp_path: Path, trigger: str
) -> None:
    """It is frozen with events in an open transaction. Its lag grows meanwhile, though it says nothing."""
    (points := tmp_path / "failpoints").mkdir()
    servers = {"kafka": kafka.bootstrap, "redis_url": redis.url}
    given = {"environ": {VARIABLE: str(points)}, "sinks": [{"trigger": trigger}]}
    with fed_processor(prefix, tmp_path, **servers, **given) as fleet, inbox(fleet.bootstrap, fleet.orders) as box:
        fleet.processor.start()
        fleet.rows(0)
        numbers(box, 1)
        wait(lambda: fleet.is_acked, 10, "the lane is idle")
        frozen = wait(fleet.status, 10, "the lane's status")
        point = points / Failpoint.LANE_WRITTEN
        point.write_text("hold 2")
        for number in range(1, 6):
            fleet.rows(number)
        fleet.read_all()
        wait(lambda: fleet.figure("lane_up") == 0, 30, "the worker stands, with two frames written at most")
        os.kill(frozen.pid, signal.SIGSTOP)
        try:
            point.unlink()
            assert not fleet.is_acked
            before = fleet.figure("lane_lag_seconds")
            wait(lambda: fleet.figure("lane_lag_seconds") > before + 2, 20, "it is later and later")
            wait(lambda: fleet.figure("lane_restarts") == 1, START_SECONDS, "it is noticed")
            assert numbers(box, 6) == [0, 1, 2, 3, 4, 5]
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(frozen.pid, signal.SIGCONT)
        wait(lambda: fleet.is_acked, 10, "all of it is acked")
        wait(lambda: fleet.figure("lane_lag_seconds") == 0, 10, "nothing is late")
        fleet.rows(6)
        assert numbers(box, 7) == [0, 1, 2, 3, 4, 5, 6]
