"""What `failover` judges of the server, asked before anything is made there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.errors import TransientError
from tidegate_reader.failover import Promoted
from tidegate_reader.timelines import History, parse_history

if TYPE_CHECKING:
    from tidegate.preflight.slot import SlotState
    from tidegate_reader.sources.postgres_wal.session import SideConnection
    from tidegate_reader.sources.postgres_wal.stream import ReplicationStream

FIRST_TIMELINE = 1


async def look(
    side: SideConnection, stream: ReplicationStream, timeline: int, version: int, slot: SlotState | None
) -> Promoted:
    is_in_recovery = bool(await side.value("SELECT pg_is_in_recovery()"))
    return Promoted(timeline, await _history(stream, timeline), is_in_recovery, version, slot)


async def _history(stream: ReplicationStream, timeline: int) -> History | None:
    if timeline <= FIRST_TIMELINE:
        return None
    try:
        [(_, content)] = await stream.execute(f"TIMELINE_HISTORY {timeline}")
    except TransientError as error:
        if error.code != "SOURCE_FAILED":
            raise
        return None  # the server does not have the file: what needs it is refused
    return parse_history(content or "")
