"""What each fault does to the world, the moment its step comes. False: it could do nothing here."""

import random
from collections.abc import Callable

from chaos.simulator.faults import Fault
from chaos.simulator.lane import KillPoint, Lane
from chaos.simulator.other_history import server_restored, server_swapped, standby_promoted
from chaos.simulator.sink import CommitFault
from chaos.simulator.world import World

from tidegate.contracts.cursor import decode_cursor
from tidegate.lsn import Lsn
from tidegate.position import BEGINNING


def inject(world: World, fault: Fault) -> bool:
    return _INJECTIONS[fault](world, world.dice)


def _pg_crash(world: World, dice: random.Random) -> bool:
    world.server.crash()
    world.ghosts.clear()
    return True


def _link_reset(world: World, dice: random.Random) -> bool:
    sender = world.server.sender
    if sender is None:
        return False
    for _ in range(dice.randint(0, len(sender.out))):
        sender.out.pop()  # sent, and never arrived
    world.server.drop_link()
    return True


def _half_open(world: World, dice: random.Random) -> bool:
    """The server gives us up after its timeout; the reader hears nothing of it but what was on the way."""
    sender = world.server.sender
    if sender is None:
        return False
    sender.statuses.clear()
    world.server.drop_link()
    return True


def _slot_dropped(world: World, dice: random.Random) -> bool:
    if world.server.slot is None:
        return False
    world.server.drop_link()
    world.server.slot = None
    world.slot_was_tampered = True
    if not world.is_known:
        world.pipeline_begins_anew()
    return True


def _slot_recreated(world: World, dice: random.Random) -> bool:
    if not _slot_dropped(world, dice):
        return False
    for transaction in list(world.server.open.values()):
        world.server.roll_back(transaction)
    world.slot_created(world.config.source.slot.name)
    return True


def _slot_advanced(world: World, dice: random.Random) -> bool:
    slot = world.server.slot
    if slot is None or not world.has_begun:
        return False
    world.server.drop_link()
    slot.confirmed = Lsn(dice.randint(slot.confirmed, world.server.wal_end))
    world.server.checkpoint()
    world.oracle.moved_floor = slot.confirmed
    world.slot_was_tampered = True  # whether a change lies between is not for us to know
    return True


def _reader_kill(world: World, dice: random.Random) -> bool:
    if not world.readers:
        return False
    world.readers[-1].kill()
    return True


def _reader_stop(world: World, dice: random.Random) -> bool:
    if not world.readers:
        return False
    world.readers[-1].stop()
    return True


def _reader_zombie(world: World, dice: random.Random) -> bool:
    """It stands still, the server gives it up, a new one starts; then it wakes."""
    if not world.readers or not world.readers[-1].is_running or any(r.is_zombie for r in world.readers):
        return False
    world.readers[-1].is_zombie = True
    if dice.random() < 0.7:
        world.server.drop_link()
    world.start_reader()
    return True


def _produce(fault: Fault) -> Callable[[World, random.Random], bool]:
    def arm(world: World, dice: random.Random) -> bool:
        world.next_produce = fault
        return True

    return arm


def _produce_late(world: World, dice: random.Random) -> bool:
    """The reader dies with something under way; the fault being enabled keeps it under way for long."""
    if not any(producer.under_way for producer in world.producers):
        return False
    return _reader_kill(world, dice)


def _topic_trimmed(world: World, dice: random.Random) -> bool:
    topic = world.topic
    if topic.beginning == topic.end:
        return False
    topic.beginning = dice.randint(topic.beginning + 1, topic.end)
    return True


def _topic_recreated(world: World, dice: random.Random) -> bool:
    if not world.topic.records:
        return False
    world.topic.recreate()
    for lane in (*world.lanes, *world.file.left.values()):
        if lane.cursor_in_group and lane.server.cursor:
            # Kafka takes the groups' offsets of a deleted topic with it.
            lane.server.cursor, lane.server.history = None, []
            world.oracle.rewound(lane.ledger, BEGINNING)
    return True


def _topic_wiped(world: World, dice: random.Random) -> bool:
    """The brokers' disk is lost; the lanes may look again only when the log is as long as it was."""
    if not world.topic.records:
        return False
    world.topic.wipe()
    for lane in world.lanes:
        if dice.random() < 0.5:
            lane.kill()
            lane.paused_until = world.time.now + dice.choice((5, 20, 60))
    return True


def _redis_down(world: World, dice: random.Random) -> bool:
    world.redis.is_up = not world.redis.is_up
    return True


def _redis_rolled_back(world: World, dice: random.Random) -> bool:
    world.redis.roll_back(dice)
    world.oracle.acks_forgotten()
    return True


def _redis_lost(world: World, dice: random.Random) -> bool:
    world.redis.lose_everything()
    world.oracle.acks_forgotten()
    return True


def _redis_mixed(world: World, dice: random.Random) -> bool:
    world.redis.mixes_next = random.Random(dice.getrandbits(32))
    return True


def _stop_of_long_ago(world: World, dice: random.Random) -> bool:
    """A lane that stood goes on, and Redis says what made it stand: it is set back to a copy, or took nothing since."""
    lane = dice.choice(world.lanes)
    if lane.worker is None or lane.lost is not None or world.time.now < lane.paused_until or not world.redis.is_up:
        return False
    lane.post_stop()
    lane.turn(5)
    if lane.worker is not None:
        return False
    copied = world.redis.copied()
    lane.start()
    world.redis.set_back(copied)
    return True


def _worker_kill(world: World, dice: random.Random) -> bool:
    worker = dice.choice(world.lanes).worker
    if worker is not None:
        worker.kill_at = dice.choice(list(KillPoint))
    return worker is not None


def _two_incarnations(world: World, dice: random.Random) -> bool:
    lane = dice.choice(world.lanes)
    if lane.worker is None or lane.lost is not None:
        return False
    # One that Redis cannot tell either: only the fence stops it.
    lane.worker.line.is_cut = dice.random() < 0.5
    lane.old_workers = [lane.worker]
    lane.start()
    return True


def _seam(world: World, dice: random.Random) -> bool:
    lane = dice.choice(world.lanes)
    lane.seam(replay=False)
    return lane.worker is not None


def _spark_replay(world: World, dice: random.Random) -> bool:
    lane = dice.choice(world.lanes)
    lane.seam(replay=True)
    return lane.worker is not None


def _lane_paused(world: World, dice: random.Random) -> bool:
    lane = dice.choice(world.lanes)
    if dice.random() < 0.5:
        lane.post_stop()
        lane.turn(5)
    lane.paused_until = world.time.now + dice.choice((1, 5, 20))
    return True


def _rewind(world: World, dice: random.Random) -> bool:
    """Stop, set, start: to a place where the lane has been, or to the beginning of what there is."""
    lane = dice.choice(world.lanes)
    if lane.lost is not None or not lane.server.history:
        return False
    to = None if dice.random() < 0.2 else decode_cursor(dice.choice(lane.server.history)).position
    _stop_lane(lane)
    return lane.rewind(to) is True


def _stop_lane(lane: Lane) -> None:
    lane.kill()
    lane.old_workers.clear()
    lane.server.held = None
    lane.server.fence()


def _sink(kind: CommitFault) -> Callable[[World, random.Random], bool]:
    def arm(world: World, dice: random.Random) -> bool:
        dice.choice(world.lanes).server.next_fault = kind
        return True

    return arm


_INJECTIONS: dict[Fault, Callable[[World, random.Random], bool]] = {
    Fault.PG_CRASH: _pg_crash,
    Fault.LINK_RESET: _link_reset,
    Fault.HALF_OPEN: _half_open,
    Fault.SLOT_DROPPED: _slot_dropped,
    Fault.SLOT_RECREATED: _slot_recreated,
    Fault.SLOT_ADVANCED: _slot_advanced,
    Fault.SERVER_RESTORED: server_restored,
    Fault.SERVER_SWAPPED: server_swapped,
    Fault.STANDBY_PROMOTED: standby_promoted,
    Fault.READER_KILL: _reader_kill,
    Fault.READER_STOP: _reader_stop,
    Fault.READER_ZOMBIE: _reader_zombie,
    Fault.PRODUCE_LOST: _produce(Fault.PRODUCE_LOST),
    Fault.ANSWER_LOST: _produce(Fault.ANSWER_LOST),
    Fault.PRODUCE_LATE: _produce_late,
    Fault.TOPIC_TRIMMED: _topic_trimmed,
    Fault.TOPIC_RECREATED: _topic_recreated,
    Fault.TOPIC_WIPED: _topic_wiped,
    Fault.REDIS_DOWN: _redis_down,
    Fault.REDIS_ROLLED_BACK: _redis_rolled_back,
    Fault.REDIS_LOST: _redis_lost,
    Fault.REDIS_MIXED: _redis_mixed,
    Fault.STOP_OF_LONG_AGO: _stop_of_long_ago,
    Fault.WORKER_KILL: _worker_kill,
    Fault.TWO_INCARNATIONS: _two_incarnations,
    Fault.SEAM: _seam,
    Fault.SPARK_REPLAY: _spark_replay,
    Fault.LANE_PAUSED: _lane_paused,
    Fault.REWIND: _rewind,
    Fault.SINK_REFUSES: _sink(CommitFault.REFUSED),
    Fault.SINK_ERRS_LATE: _sink(CommitFault.LATE_ERROR),
    Fault.SINK_HOLDS: _sink(CommitFault.HELD),
    Fault.SINK_ADDED: lambda world, dice: world.file.add(dice),
    Fault.SINK_REMOVED: lambda world, dice: world.file.remove(dice),
    Fault.REJECTED_ROWS: lambda world, dice: True,  # enabled, the load writes such rows
}
