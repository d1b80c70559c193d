"""The slot is still held when we start: by a link of ours that nobody closed, or by somebody who is alive.

| holder | what is done |
| --- | --- |
| a walsender whose application_name proves a dead process of this very place, same role, same address | terminated |
| anybody else | waited for, told by pid, name and address; then exit 1, and again |

A reader that was killed leaves its link to the kernel, which closes it. Where the link is dead half way, the server
does not see that before its wal_sender_timeout. Invariant: nobody who may be alive is ever terminated.
"""

import asyncio
import time
from dataclasses import dataclass

from tidegate.errors import TransientError
from tidegate_reader.process_identity import ProcessIdentity
from tidegate_reader.sources.postgres_wal.session import SideConnection
from tidegate_reader.surroundings import Surroundings

_LOOK_SECONDS = 0.1
_TELL_SECONDS = 5.0

_HOLDER = """
SELECT a.pid, a.application_name, coalesce(host(a.client_addr), 'local'),
       a.usename = current_user AND a.client_addr IS NOT DISTINCT FROM inet_client_addr(),
       extract(epoch FROM clock_timestamp() - a.backend_start)::float8
FROM pg_replication_slots s JOIN pg_stat_activity a ON a.pid = s.active_pid WHERE s.slot_name = %s
"""


@dataclass(frozen=True, slots=True)
class Holder:
    pid: int
    application: str
    address: str
    is_from_here: bool
    age_seconds: float

    @property
    def is_our_dead(self) -> bool:
        identity = ProcessIdentity.parse(self.application.rpartition(" ")[2])
        return self.is_from_here and identity is not None and identity.is_dead

    def __str__(self) -> str:
        return f"pid {self.pid}, {self.application!r} from {self.address}, for {self.age_seconds:.0f} s"


async def wait_for_slot(around: Surroundings, side: SideConnection) -> None:
    slot = around.config.source.slot.name
    deadline = time.monotonic() + around.config.reader.slot_wait.total_seconds()
    told_at = float("-inf")
    while (holder := await _holder(side, slot)) is not None:
        if holder.is_our_dead:
            around.log.warning("stale_sender_terminated", slot=slot, holder=str(holder))
            await side.fetch("SELECT pg_terminate_backend(%s)", [holder.pid])
        elif time.monotonic() > deadline:
            raise TransientError(
                f"slot {slot} is held by {holder}",
                code="SLOT_IN_USE",
                remedy="Stop the other reader. If it is gone, the server notices within its wal_sender_timeout; to be "
                f"quicker: SELECT pg_terminate_backend({holder.pid});",
            )
        elif time.monotonic() > told_at + _TELL_SECONDS:
            told_at = time.monotonic()
            around.log.warning("slot_in_use", slot=slot, holder=str(holder))
        await asyncio.sleep(_LOOK_SECONDS)


async def _holder(side: SideConnection, slot: str) -> Holder | None:
    rows = await side.fetch(_HOLDER, [slot])
    return Holder(*rows[0]) if rows else None
