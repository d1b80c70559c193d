"""Many faults in a row, with no barrier between them: what one leaves half healed, the next one meets.

Invariant: none of them may lose anything, so the order is any.
"""

import random

from chaos.fleet import faults, link_faults, server_faults
from chaos.fleet.field import Fault, Field
from chaos.fleet.kills import Kind

ANY: tuple[Fault, ...] = (
    faults.reader_killed,
    faults.processor_killed,
    faults.worker_killed,
    faults.sender_terminated,
    faults.interleaved,
    faults.frozen("reader"),
    faults.frozen("processor"),
    link_faults.any_link,
    link_faults.any_link,
    link_faults.acks_slow_and_cancelled,
    server_faults.killed(Kind.KAFKA),
    server_faults.killed(Kind.REDIS),
    server_faults.killed(Kind.POSTGRES),
    server_faults.redis_emptied,
    server_faults.log_refuses,
)


def soak(field: Field, draw: random.Random) -> None:
    for _ in range(draw.randint(5, 12)):
        draw.choice(ANY)(field, draw)
