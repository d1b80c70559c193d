"""One run: the plan's steps, then healing, then the last check.

Invariant: a run never ends well with something missing: either everything is delivered, or somebody said LOST and
the oracle agrees that something is lost.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from chaos.simulator.faults import Fault
from chaos.simulator.injection import inject
from chaos.simulator.lane import Lane
from chaos.simulator.oracle import Violation
from chaos.simulator.plan import Plan, make_plan
from chaos.simulator.production import models
from chaos.simulator.world import World

# Of 0.25 s: twice what a hole may last.
_HEALING_ROUNDS = 500
_STEADY_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Result:
    plan: Plan
    violation: Violation | None
    steps: int
    counts: Counter[str]


def simulate(seed: int, allowed: frozenset[Fault] = frozenset(Fault)) -> Result:
    return execute(make_plan(seed, allowed))


def execute(plan: Plan, say: Callable[[str], None] | None = None) -> Result:
    world = World(plan, say)
    violation, done = None, 0
    with models(world):
        try:
            for step in plan.steps:
                done += 1
                _take(world, step.number, step.action, step.seed)
            _heal(world)
        except Violation as found:
            violation = found
            world.note(f"VIOLATION {found}")
    _count(world)
    return Result(plan, violation, done, world.counts)


def _take(world: World, number: int, action: str, seed: int) -> None:
    world.dice.seed(seed)
    if action.startswith("fault "):
        fault = Fault(action.removeprefix("fault "))
        if inject(world, fault):
            world.counts[fault] += 1
            world.note(f"step {number}: {fault}")
    else:
        getattr(world, action)()
    if world.dice.random() < 0.05:
        for lane in world.lanes:
            lane.server.release()
    world.after(action)


def _heal(world: World) -> None:
    """No more faults; whoever is restarted by a supervisor is; nobody does anything else by hand."""
    world.note("healing")
    world.is_healing = True
    world.dice.seed(world.seed)
    world.redis.is_up, world.redis.mixes_next, world.next_produce = True, None, None
    for lane in world.lanes:
        lane.server.next_fault, lane.paused_until, lane.server.held = None, 0.0, None
        lane.old_workers.clear()
        if lane.worker is not None:
            lane.worker.kill_at = None
    for reader in [reader for reader in world.readers if reader.is_zombie]:
        reader.kill()
    for transaction in list(world.server.open.values()):
        world.commit(transaction)
    steady = 0
    for number in range(_HEALING_ROUNDS):
        if number == 40:
            world.commit(world.workload.sentinel())
        _round(world)
        steady = steady + 1 if number > 40 and _is_quiet(world) else 0
        if steady == _STEADY_ROUNDS:
            break
    _last_check(world)


def _round(world: World) -> None:
    if not world.file.is_taken:
        world.file.take()
    for _ in range(4):
        world.send()
        world.read()
        world.broker()
        for lane in world.lanes:
            lane.turn(20)
    world.acks()
    world.status()
    world.look()
    world.time.now += 0.25
    world.oracle.check(world.server.slot)


def _is_quiet(world: World) -> bool:
    lanes_done = all(_lane_is_done(world, lane) for lane in world.lanes) and _is_taken_over(world)
    return lanes_done and (world.reader_lost is not None or _gate_is_open(world))


def _is_taken_over(world: World) -> bool:
    return world.reader_lost is not None or any(reader.taking and reader.taking.is_done for reader in world.readers)


def _is_refused(world: World, lane: Lane) -> bool:
    """By the reader, loudly: the name has a past behind which nobody has what it lacks."""
    return any(reader.taking and lane.name in reader.taking.refused for reader in world.readers)


def _lane_is_done(world: World, lane: Lane) -> bool:
    if _is_refused(world, lane):
        return True
    if lane.lost is not None or world.oracle.pending(lane.ledger) is None:
        return True
    # Nobody feeds it any more: what the topic has is all it gets.
    worker = lane.worker
    return world.reader_lost is not None and worker is not None and worker.source.at == world.topic.end


def _gate_is_open(world: World) -> bool:
    if any(lane.lost is not None and lane.ledger.required for lane in world.lanes):
        return True
    expected, slot = world.oracle.expected, world.server.slot
    return slot is not None and (not expected or slot.confirmed >= expected[-1].end_lsn)


def _last_check(world: World) -> None:
    if world.oracle.is_forked:
        # A lane that has nothing has nothing of the other history either.
        silent = [lane.name for lane in world.lanes if lane.lost is None and lane.ledger.have]
        if world.reader_lost is None and silent and not world.oracle.is_unknowable:
            raise Violation("I8", "another history and nobody said so", ", ".join(silent))
        return
    if world.reader_lost is not None:
        return
    if not _is_taken_over(world):
        raise Violation("I7", "the reader has not taken the file over", str(world.config.required_sinks))
    for lane in [lane for lane in world.lanes if not _is_refused(world, lane)]:
        if world.oracle.pending(lane.ledger) is not None and lane.lost is None:
            _unfinished(world, lane)
    if not _gate_is_open(world):
        slot = world.server.slot
        raise Violation("I7", "the gate stays shut", f"confirmed {slot and slot.confirmed}")


def _unfinished(world: World, lane: Lane) -> None:
    error = lane.last_error.code if lane.last_error else "no error"
    reader = world.readers[-1] if world.readers else None
    if world.oracle.is_lost(lane.ledger, world.server.slot, world.topic):
        raise Violation("I8", f"lost and nobody said so ({error})", lane.name)
    state = "running" if reader and reader.is_running else "not running"
    raise Violation("I7", f"not caught up after healing ({error}, reader {state})", lane.name)


def _count(world: World) -> None:
    for lane in world.lanes:
        world.counts["events"] += lane.ledger.events
        world.counts["dead letters"] += lane.ledger.letters
    world.counts["confirmations"] += world.oracle.confirms
    world.counts["transactions"] += len(world.oracle.expected)
    world.counts["epochs"] += sum(record.header.kind.name == "EPOCH" for record in world.topic.records)
    world.counts["void frames"] += sum(not record.is_valid for record in world.topic.records)
