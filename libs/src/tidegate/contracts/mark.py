"""The body of a `mark` frame: something to be said in order, between two changes, that is not a row.

A mark takes no ordinal. Its place is the frame's `first` position: it stands immediately before the change there.
"""

import json
from dataclasses import dataclass, field
from enum import StrEnum

from tidegate.contracts.document import build, load
from tidegate.errors import DecodeError


class MarkKind(StrEnum):
    SCHEMA_CHANGE = "schema_change"
    SNAPSHOT_STARTED = "snapshot_started"
    SNAPSHOT_COMPLETED = "snapshot_completed"
    SENTINEL = "sentinel"
    HEARTBEAT = "heartbeat"


@dataclass(frozen=True, slots=True)
class Mark:
    kind: MarkKind
    details: dict[str, object] = field(default_factory=dict)

    def encode(self) -> bytes:
        return json.dumps({"kind": self.kind, "details": self.details}, separators=(",", ":"), sort_keys=True).encode()


def decode_mark(body: bytes) -> Mark:
    try:
        document = load(body)
        return build(Mark, document | {"kind": MarkKind(str(document["kind"]))})
    except (ValueError, KeyError):
        raise DecodeError("the body of a mark frame is malformed", code="MARK_MALFORMED") from None
