"""Who changed what: one line in the log before a change is tried and one behind it, and an entry others can list.

Invariant: nothing is changed by a request that is not in the log first. The list in Redis is for looking; it may be
lost with Redis, the log line may not.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from tidegate.observability import logs

_log = logs.get("audit")


@dataclass(frozen=True, slots=True)
class Entry:
    time: int
    """Unix microseconds."""
    operation: str
    path: str
    pipeline: str | None
    caller: str
    caller_id: str
    address: str
    status: int = 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class AuditSink(Protocol):
    async def keep(self, pipeline: str, entry: bytes) -> None: ...


def begun(entry: Entry) -> None:
    _log.info("change_asked", **_fields(entry))


async def ended(entry: Entry, sink: AuditSink) -> None:
    _log.info("change_answered", **_fields(entry), status=entry.status)
    if entry.pipeline is not None:
        await sink.keep(entry.pipeline, json.dumps(entry.to_json(), separators=(",", ":")).encode())


def _fields(entry: Entry) -> dict[str, Any]:
    return {
        "operation": entry.operation,
        "path": entry.path,
        "caller": entry.caller,
        "caller_id": entry.caller_id,
        "address": entry.address,
    }
