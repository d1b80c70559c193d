"""What may be done to a slot. PostgreSQL forgets WAL by these calls, so each is checked against what it would lose.

Invariant: a slot that somebody holds is never touched (the server itself refuses, without waiting); somebody else's is
never touched, nor another pipeline's through this one; and going beyond what every required sink has acked takes a word
of its own.
"""

from collections.abc import Iterable
from http import HTTPStatus

from tidegate.config.pipeline import PipelineConfig
from tidegate.lsn import Lsn, format_lsn, parse_lsn
from tidegate_admin.errors import ApiError
from tidegate_admin.slots.listing import find_slot
from tidegate_admin.slots.schemas import AdvanceSlot, SlotChanged, SlotEntry, Whose
from tidegate_admin.source.session import Session


async def create(session: Session, config: PipelineConfig) -> SlotChanged:
    """The pipeline's own, where its reader is told not to create it. It keeps WAL from now on."""
    slot = config.source.slot
    if slot.temporary:
        raise _refused("SLOT_TEMPORARY", "a temporary slot ends with its connection", "Let the reader make it.")
    cursor = await session.execute("SELECT current_setting('server_version_num')::int")
    row = await cursor.fetchone()
    version = row[0] if row else 0
    arguments: list[object] = [slot.name, "pgoutput"]
    command = "SELECT lsn::text FROM pg_create_logical_replication_slot(%s, %s)"
    if slot.failover and version >= 170_000:
        command = "SELECT lsn::text FROM pg_create_logical_replication_slot(%s, %s, failover => true)"
    cursor = await session.execute(command, arguments)
    made = await cursor.fetchone()
    return SlotChanged(name=slot.name, done="created", confirmed_flush_lsn=made[0] if made else None)


async def drop(
    session: Session, pipelines: Iterable[PipelineConfig], config: PipelineConfig, name: str, confirm: str
) -> SlotChanged:
    await _take_up(session, pipelines, config, name, confirm)
    await session.execute("SELECT pg_drop_replication_slot(%s)", [name])
    return SlotChanged(name=name, done="dropped")


async def advance(
    session: Session,
    pipelines: Iterable[PipelineConfig],
    config: PipelineConfig,
    name: str,
    wanted: AdvanceSlot,
    acked: Lsn | None,
) -> SlotChanged:
    """`acked`: what every required sink of the slot's pipelines has; none if that is not known."""
    slot = await _take_up(session, pipelines, config, name, wanted.confirm)
    to = parse_lsn(wanted.to)
    if not wanted.accept_loss and (acked is None or to > acked):
        limit = "nothing is known to be acked" if acked is None else f"sinks have acked up to {format_lsn(acked)}"
        raise _refused(
            "SLOT_ADVANCE_LOSES",
            f"changes would be lost: {limit}",
            "Let the sinks catch up. To lose what lies between on purpose, say accept_loss.",
        )
    if slot.confirmed_flush_lsn and to <= parse_lsn(slot.confirmed_flush_lsn):
        raise _refused("SLOT_ADVANCE_BACK", f"the slot is at {slot.confirmed_flush_lsn} already", "It only goes on.")
    cursor = await session.execute(
        "SELECT end_lsn::text FROM pg_replication_slot_advance(%s, LEAST(%s::pg_lsn, pg_current_wal_flush_lsn()))",
        [name, wanted.to],
    )
    row = await cursor.fetchone()
    return SlotChanged(name=name, done="advanced", confirmed_flush_lsn=row[0] if row else None)


async def _take_up(
    session: Session, pipelines: Iterable[PipelineConfig], config: PipelineConfig, name: str, confirm: str
) -> SlotEntry:
    slot = await find_slot(session, pipelines, config, name)
    if slot is None:
        raise slot_unknown()
    if slot.whose is Whose.FOREIGN and not slot.active:
        raise _refused("SLOT_FOREIGN", "this slot is somebody else's", "Its owner drops it, in PostgreSQL.")
    if slot.pipeline not in (None, config.pipeline):
        raise _refused("SLOT_OTHER_PIPELINE", f"this slot is the pipeline {slot.pipeline}'s", "Ask at that pipeline.")
    if slot.database != config.source.database:
        raise _refused(
            "SLOT_OTHER_DATABASE",
            "this slot is of another database than the pipeline's",
            "Ask at a pipeline of that database, or drop it in PostgreSQL.",
        )
    if slot.active:
        raise _refused("SLOT_ACTIVE", "somebody holds this slot", "Stop its reader first.")
    if confirm != name:
        raise ApiError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "confirm is not the slot's name",
            code="CONFIRM_MISMATCH",
            remedy="Type the slot's name into confirm, exactly.",
        )
    return slot


def slot_unknown() -> ApiError:
    return ApiError(
        HTTPStatus.NOT_FOUND,
        "the source's server has no slot of this name",
        code="SLOT_UNKNOWN",
        remedy="GET …/slots lists them.",
    )


def _refused(code: str, message: str, remedy: str) -> ApiError:
    return ApiError(HTTPStatus.CONFLICT, message, code=code, remedy=remedy)
