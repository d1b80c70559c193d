"""Turns in which a task could only look and wait on are not taken: most turns of a reader's intake, most rounds of a
lane's worker. What they would have counted or drawn is.

Invariant: a run with rests and one without are the same, step by step (test_a_rest_changes_nothing). Whoever makes
`Intake._turn`, `Delivery.commit` or `LaneLink.acknowledge` do something new when there is nothing to do says here when.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.contracts.names import lane_control_key
from tidegate_processor import commit, control
from tidegate_reader.feedback import SILENCE_SECONDS
from tidegate_reader.intake import Intake

if TYPE_CHECKING:
    from chaos.simulator.edges import Stream
    from chaos.simulator.lane import Worker
    from chaos.simulator.world import World


@dataclass(slots=True)
class Rest:
    world: "World"
    key: str
    told: bytes | None
    """By the driver."""
    acked: int | None
    """When the ack was last said, in unix microseconds; none where there is nothing to say."""
    committed: float | None
    """When the cursor was; none where it has not moved since."""

    def lasts(self, worker: "Worker", most: int) -> bool:
        world = self.world
        if worker.kill_at is not None or not _hears(world, worker) or not worker.source.has_nothing(most):
            return False
        if world.redis.seen(self.key) is not self.told:
            return False
        if self.committed is not None and world.time.now - self.committed > commit._IDLE_COMMIT_SECONDS:
            return False
        return self.acked is None or world.time.unix_microseconds() - self.acked < control._REPUBLISH_SECONDS * 1e6


def rest_of(world: "World", worker: "Worker", delivery: commit.Delivery, link: control.LaneLink) -> Rest | None:
    """After a round without records; none if something is still to be said, or was not heard."""
    if not _hears(world, worker):
        return None
    ack, said = delivery.ack(), link._acked
    if ack is not None and (said is None or control._place(ack) != control._place(said)):
        return None
    key = lane_control_key(world.config.pipeline, worker.lane_name)
    acked = said.time if ack is not None and said is not None else None
    committed = delivery._last_commit if delivery._has_moved() else None
    return Rest(world, key, world.redis.seen(key), acked, committed)


def _hears(world: "World", worker: "Worker") -> bool:
    return world.redis.is_up and not worker.line.is_cut


def may_rest(intake: Intake, stream: "Stream", now: float) -> bool:
    """It stands in `Intake._wait`, nothing has come, and nothing that has is due to be framed."""
    if not stream.is_waited_for or not stream.has_nothing:
        return False
    deadline = intake._framer.deadline()
    if deadline is not None and now >= deadline:
        return False
    return now - max(stream.last_heard, intake._listening_since) <= SILENCE_SECONDS


def looked_in_vain(intake: Intake) -> None:
    intake._turns += 1
    intake._small = 0
