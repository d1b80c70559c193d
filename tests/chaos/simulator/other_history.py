"""Another server behind the address: an older state of ours, or somebody else's.

Invariant: from then on the oracle knows of two histories, and of what is only in the one before.
"""

import random

from chaos.simulator.postgres import Server
from chaos.simulator.world import World

from tidegate.lsn import Lsn


def server_restored(world: World, dice: random.Random) -> bool:
    """An older state of the same cluster: by point-in-time recovery (a new timeline) or from a disk snapshot."""
    old = world.server
    sent = _sent(world)
    if old.slot is None or sent <= old.slot.born:  # the slot comes back with the rest
        return False
    here = Lsn(dice.randint(old.slot.born, sent - 1))
    kept = [entry for entry in old.wal if entry.end_lsn <= here]
    timeline = old.timeline + 1 if dice.random() < 0.7 else old.timeline
    _replace_server(world, Server(old.system, timeline, here, old.database), min(old.slot.confirmed, here))
    world.server.go_on_from(old, kept)
    world.oracle.forked_at = here
    return True


def standby_promoted(world: World, dice: random.Random) -> bool:
    """The slot came along as it was when it was last in step. Where the standby had all that anybody has read, that is
    a planned failover; where it had not, the history is forked."""
    old = world.server
    if old.slot is None or not world.has_begun:
        return False
    ends = [entry.end_lsn for entry in old.wal if old.slot.born <= entry.end_lsn < _sent(world)]
    is_behind = bool(ends) and dice.random() < 0.3
    here = dice.choice(ends) if is_behind else old.wal_end
    synced = min(dice.choice((old.slot.saved[0], old.slot.confirmed)), here)
    server, was_forked = Server(old.system, old.timeline + 1, here, old.database), world.oracle.is_forked
    _replace_server(world, server, synced)
    server.go_on_from(old, [entry for entry in old.wal if entry.end_lsn <= here])
    assert server.slot is not None
    server.slot.synced, server.slot.born = True, old.slot.born
    if is_behind:
        world.oracle.forked_at = here
    else:
        world.oracle.is_forked = was_forked
        server.tells |= old.tells
    if dice.random() < 0.3:
        server.promote_again()
    return True


def server_swapped(world: World, dice: random.Random) -> bool:
    old = world.server
    if old.slot is None or not world.has_begun:
        return False
    # The worst LSNs are those that overlap: they look like ours a moment later, or at once where all was delivered.
    places = (old.slot.confirmed, old.slot.restart, old.wal_end, old.wal_end + 20_000)
    here = Lsn((dice.random() < 0.7 and _sent(world)) or dice.choice(places))
    _replace_server(world, Server(old.system + 1, 1, here, old.database), here)
    return True


def _sent(world: World) -> int:
    """How far the raw topic has come."""
    return max((record.header.safe_lsn for record in world.topic.records if record.is_valid), default=0)


def _replace_server(world: World, server: Server, confirmed: Lsn) -> None:
    world.server.drop_link()
    world.server.is_up = False
    world.ghosts.clear()
    world.server = world.workload.server = server
    slot = server.create_slot(world.config.source.slot.name)
    slot.confirmed = slot.restart = confirmed
    server.checkpoint()
    world.oracle.is_forked = True
