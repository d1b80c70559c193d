"""Faults of the links, by the proxy.

Invariant: each is healed when its fault is over, and links that lost bytes are ended then.
"""

import random
from collections.abc import Mapping

from chaos.fleet.faults import flow, pause
from chaos.fleet.field import Fault, Field
from chaos.fleet.links import ALWAYS, Link

HALF_OPEN: Mapping[str, object] = {"do": "hold"}
KINDS: Mapping[str, Mapping[str, object]] = {
    "cut": {"do": "cut"},
    "refused": {"do": "refuse"},
    "half-open": HALF_OPEN,
    "deaf": {"do": "hold", "way": "down"},
    "answers lost": {"do": "swallow", "way": "down"},
    "requests lost": {"do": "swallow", "way": "up"},
    "slow": {"do": "delay", "seconds": 0.2, "jitter": 0.1},
    "dripping": {"do": "drip", "bytes": 512, "seconds": 0.01},
}


def faulty(link: Link, kind: str) -> Fault:
    def fault(field: Field, draw: random.Random) -> None:
        flow(field, draw)
        order = dict(KINDS[kind])
        do = str(order.pop("do"))
        field.links.tell(link, do, **order)
        pause(draw.uniform(0.5, 6))
        field.links.tell(link, "heal")

    return fault


def flapping(link: Link) -> Fault:
    """Two seconds on, two off."""

    def fault(field: Field, draw: random.Random) -> None:
        for _ in range(draw.randint(2, 4)):
            flow(field, draw, 10)
            field.links.tell(link, "refuse")
            pause(draw.uniform(0.5, 2))
            field.links.tell(link, "heal")

    return fault


def any_link(field: Field, draw: random.Random) -> None:
    faulty(draw.choice(ALWAYS), draw.choice(list(KINDS)))(field, draw)


def reader_blocked(*, seconds: tuple[float, float] = (8, 15)) -> Fault:
    """The brokers take nothing: the source is not read any more, and statuses go on, so its link stays."""

    def fault(field: Field, draw: random.Random) -> None:
        flow(field, draw)
        before = _sender(field)
        field.links.tell(Link.READER_KAFKA, "hold")
        pause(draw.uniform(*seconds))
        after = _sender(field)
        field.links.tell(Link.READER_KAFKA, "heal")
        assert before == after, "B2: the link to the source was given up while the reader was blocked"

    return fault


def _sender(field: Field) -> object:
    return field.rig.sql("SELECT active_pid::text FROM pg_replication_slots WHERE slot_name = %s", field.rig.slot)


def acks_slow_and_cancelled(field: Field, draw: random.Random) -> None:
    """Answers of Redis come late, connections end in the middle of one: none may answer the next question."""
    field.links.tell(Link.READER_REDIS, "delay", seconds=0.1, jitter=0.1)
    for _ in range(draw.randint(5, 15)):
        pause(draw.uniform(0.05, 0.6))
        field.links.tell(Link.READER_REDIS, "cut")
    field.links.tell(Link.READER_REDIS, "heal")
