"""A sink that was required and is not any more: from now on the source forgets what that sink has not had.

That is a decision of whoever changed the configuration, so it is written down before the gate first counts without the
sink: in the log, and as an audit record in Redis with the last ack. The ack itself stays: a sink that comes back under
its name joins from there, and is LOST if what lies between is gone.
Invariant: no audit record, no start, and no change under a running reader; Redis has to take it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import redis

from tidegate.checkpoint.connect import connect_async
from tidegate.clock import unix_microseconds
from tidegate.contracts.ack import Ack
from tidegate.contracts.lineage import Lineage
from tidegate.contracts.names import audit_key
from tidegate.errors import TransientError
from tidegate.lsn import format_lsn
from tidegate.observability import logs

if TYPE_CHECKING:
    from tidegate.config.pipeline import PipelineConfig

WRITE_SECONDS = 5.0
KEPT = 10_000


async def tombstone(config: PipelineConfig, before: Lineage | None, acks: Mapping[str, Ack]) -> None:
    gone = removed(before, config.required_sinks)
    if not gone:
        return
    async with connect_async(config.redis) as client:
        for sink in gone:
            is_there = any(each.name == sink for each in config.sinks)
            entry = record(config.pipeline, sink, acks.get(sink), still_there=is_there)
            await _write(client, audit_key(config.pipeline), entry)
            logs.get("reader").warning("sink_no_longer_required", sink=sink, **_last(acks.get(sink)))


def removed(before: Lineage | None, required: Sequence[str]) -> list[str]:
    return [] if before is None else [sink for sink in before.required if sink not in required]


def record(pipeline: str, sink: str, ack: Ack | None, *, still_there: bool) -> dict[str, object]:
    """In the form of the admin service's own records, so that they are listed together."""
    return {
        "time": unix_microseconds(),
        "operation": "sinkNotRequired" if still_there else "sinkRemoved",
        "path": f"/sinks/{sink}",
        "pipeline": pipeline,
        "caller": "reader",
        "caller_id": "configuration",
        "address": "",
        "status": 200,
        **_last(ack),
    }


def _last(ack: Ack | None) -> dict[str, str]:
    if ack is None:
        return {"acked": "nothing"}
    return {"acked": format_lsn(ack.safe_lsn), "position": str(ack.position), "generation": ack.generation}


async def _write(client: Any, key: str, entry: Mapping[str, object]) -> None:  # redis' streams are typed too narrowly
    try:
        async with asyncio.timeout(WRITE_SECONDS):
            text = json.dumps(entry, separators=(",", ":"))
            await client.xadd(key, {"entry": text.encode()}, maxlen=KEPT, approximate=True)
    except (redis.RedisError, OSError, TimeoutError) as error:
        raise TransientError(
            f"Redis did not take the record of a removed sink: {type(error).__name__}",
            code="AUDIT_UNWRITTEN",
            remedy="Check that Redis is up and that the user may XADD; the reader tries again.",
        ) from error
