"""Asks the reader about snapshots through Redis, and tells how far they are. Only the reader reads tables.

Invariant: what nobody takes does not pile up, and a status that is no status is left out, never guessed.
"""

import uuid
from http import HTTPStatus

import redis

from tidegate.clock import unix_microseconds
from tidegate.contracts import names
from tidegate.contracts.request import LaneOutcome
from tidegate.contracts.snapshot_request import (
    RowFilter,
    SnapshotAsked,
    SnapshotRequest,
    decode_snapshot_request,
)
from tidegate.contracts.snapshot_status import (
    SnapshotState,
    SnapshotStatus,
    TableStatus,
    decode_snapshot_status,
    decode_table_status,
)
from tidegate.errors import ConfigError, DecodeError, TransientError
from tidegate_admin.access import PipelineAccess
from tidegate_admin.errors import ApiError
from tidegate_admin.snapshots.schemas import Start
from tidegate_admin.store import answered, outcome_of, store_unavailable

MOST_WAITING = 16


async def start(of: PipelineAccess, wanted: Start, by: str) -> SnapshotRequest:
    filters = tuple(RowFilter(each.table, each.column, each.comparison, each.value) for each in wanted.filters)
    return await _put(
        of,
        SnapshotRequest(
            uuid.uuid4().hex,
            SnapshotAsked.START,
            by,
            unix_microseconds(),
            tables=tuple(dict.fromkeys(wanted.tables)),
            filters=filters,
            priority=wanted.priority,
        ),
    )


async def ask(of: PipelineAccess, snapshot: str, asked: SnapshotAsked, by: str) -> SnapshotRequest:
    found = await show(of, snapshot)
    is_tried_again = asked is SnapshotAsked.RESUME and found.state is SnapshotState.FAILED
    if found.state.is_over and not is_tried_again:
        raise ApiError(
            HTTPStatus.CONFLICT,
            f"the snapshot is {found.state} already",
            code="SNAPSHOT_OVER",
            remedy="Start another one.",
        )
    return await _put(of, SnapshotRequest(uuid.uuid4().hex, asked, by, unix_microseconds(), snapshot=snapshot))


async def listed(of: PipelineAccess) -> list[SnapshotStatus]:
    """The newest first."""
    try:
        values: dict[bytes, bytes] = await answered(of.redis.hgetall(names.snapshots_key(of.config.pipeline)))
    except (redis.RedisError, OSError, ConfigError) as error:
        raise store_unavailable(error) from error
    found = [status for value in values.values() if (status := _status(value)) is not None]
    return sorted(found, key=lambda each: (each.requested, each.id), reverse=True)


async def show(of: PipelineAccess, snapshot: str) -> SnapshotStatus:
    try:
        value = await answered(of.redis.hget(names.snapshots_key(of.config.pipeline), snapshot))
    except (redis.RedisError, OSError, ConfigError) as error:
        raise store_unavailable(error) from error
    found = _status(value)
    if found is None:
        raise ApiError(
            HTTPStatus.NOT_FOUND,
            "there is no such snapshot",
            code="SNAPSHOT_UNKNOWN",
            remedy="GET …/snapshots lists them; one that was just asked for is there once the reader has taken it.",
        )
    return found


async def tables(of: PipelineAccess, snapshot: str) -> list[TableStatus]:
    try:
        values = await answered(of.redis.hvals(names.snapshot_tables_key(of.config.pipeline, snapshot)))
    except (redis.RedisError, OSError, ConfigError) as error:
        raise store_unavailable(error) from error
    found = []
    for value in values:
        try:
            found.append(decode_table_status(value))
        except DecodeError:
            continue
    return sorted(found, key=lambda each: (each.schema, each.table))


async def outcome(of: PipelineAccess, identity: str) -> LaneOutcome:
    """Of a request of the last day."""
    pipeline = of.config.pipeline
    unknown = ApiError(
        HTTPStatus.NOT_FOUND,
        "there is no such request about snapshots",
        code="SNAPSHOT_REQUEST_UNKNOWN",
        remedy="Outcomes are kept for a day; GET …/changes lists what was asked for.",
    )
    return await outcome_of(
        of.redis,
        identity,
        requests_key=names.snapshot_requests_key(pipeline),
        outcome_key=names.snapshot_outcome_key(pipeline, identity),
        decode=decode_snapshot_request,
        unknown=unknown,
    )


async def _put(of: PipelineAccess, request: SnapshotRequest) -> SnapshotRequest:
    key = names.snapshot_requests_key(of.config.pipeline)
    try:
        if await answered(of.redis.llen(key)) >= MOST_WAITING:
            raise TransientError(
                "requests about snapshots wait for a reader that takes them",
                code="SNAPSHOT_REQUESTS_WAITING",
                remedy="Start the reader: it takes them in order.",
            )
        await answered(of.redis.rpush(key, request.encode()))
    except (redis.RedisError, OSError, ConfigError) as error:
        raise store_unavailable(error) from error
    return request


def _status(value: object) -> SnapshotStatus | None:
    try:
        return decode_snapshot_status(value) if isinstance(value, bytes) else None
    except DecodeError:
        return None
