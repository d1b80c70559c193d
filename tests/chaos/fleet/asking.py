"""A person who asks the reader about snapshots, as the admin API does: requests in Redis, and what became of them."""

import uuid
from collections.abc import Sequence

import redis
from kit.wait import wait

from tidegate.clock import unix_microseconds
from tidegate.contracts import names
from tidegate.contracts.request import Result, decode_outcome
from tidegate.contracts.snapshot_request import RowFilter, SnapshotAsked, SnapshotRequest
from tidegate.contracts.snapshot_status import SnapshotState, SnapshotStatus, decode_snapshot_status

BY = "chaos"


class Asking:
    def __init__(self, client: redis.Redis, pipeline: str, answer_seconds: float) -> None:
        self._redis, self._pipeline, self._seconds = client, pipeline, answer_seconds

    def start(self, tables: Sequence[str], filters: Sequence[RowFilter] = (), priority: int = 0) -> str:
        """Its id, once it is taken."""
        request = SnapshotRequest(
            uuid.uuid4().hex,
            SnapshotAsked.START,
            BY,
            unix_microseconds(),
            tables=tuple(tables),
            filters=tuple(filters),
            priority=priority,
        )
        assert self._answer(request) is Result.DONE, "I7: a snapshot that may be taken was refused"
        return request.id

    def ask(self, snapshot: str, asked: SnapshotAsked) -> bool:
        """Whether it was done; what a snapshot is too far on for is refused."""
        request = SnapshotRequest(uuid.uuid4().hex, asked, BY, unix_microseconds(), snapshot=snapshot)
        return self._answer(request) is Result.DONE

    def status(self, snapshot: str) -> SnapshotStatus | None:
        value = self._redis.hget(names.snapshots_key(self._pipeline), snapshot)
        return decode_snapshot_status(value) if isinstance(value, bytes) else None

    def newest(self) -> SnapshotStatus | None:
        values = self._redis.hvals(names.snapshots_key(self._pipeline))
        found = [decode_snapshot_status(value) for value in values if isinstance(value, bytes)]
        return max(found, key=lambda each: each.requested, default=None)

    def is_over(self, snapshot: str) -> SnapshotState | None:
        """The state it ended in."""
        status = self.status(snapshot)
        return status.state if status is not None and status.state.is_over else None

    def _answer(self, request: SnapshotRequest) -> Result:
        self._redis.rpush(names.snapshot_requests_key(self._pipeline), request.encode())
        key = names.snapshot_outcome_key(self._pipeline, request.id)
        value = wait(
            lambda: self._redis.get(key), self._seconds, f"a request to {request.asked} a snapshot is answered"
        )
        assert isinstance(value, bytes)
        return decode_outcome(value).result
