"""The slot that a run reads from: as it is, made, or made anew in place of one that is lost.

| slot | the pipeline has read from it | what is done |
| --- | --- | --- |
| good | | nothing |
| missing | no | made, if it may be |
| missing | yes | lost: a person decides, or it is noted and made anew (`repair`) |
| invalidated | yes | lost: a person decides, or it is noted, dropped and made anew |
| invalidated | no | a person decides: whose it was, nobody knows |

Invariant: a slot is dropped only if the server has given it up, and nothing is made in place of a lost one unless that
it is lost is written down.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from tidegate.contracts.gap import GapReason
from tidegate.errors import ConfigError, StreamError, TransientError
from tidegate.failpoints import Failpoint, reach
from tidegate.lsn import Lsn
from tidegate.quoting import literal
from tidegate_reader.source_watch import wal_end
from tidegate_reader.sources.postgres_wal.failures import LOST_REMEDY
from tidegate_reader.sources.postgres_wal.publications import ensure_publication
from tidegate_reader.sources.postgres_wal.slots import create_slot, drop_invalidated, invalidated, read_slot

if TYPE_CHECKING:
    from tidegate.config.pipeline import PipelineConfig
    from tidegate.preflight.slot import SlotState
    from tidegate_reader.repair import Repair
    from tidegate_reader.snapshot.exported import Exported
    from tidegate_reader.sources.postgres_wal.session import SideConnection
    from tidegate_reader.sources.postgres_wal.stream import ReplicationStream


class SlotMaking:
    def __init__(
        self, config: PipelineConfig, side: SideConnection, stream: ReplicationStream, version: int, repair: Repair
    ) -> None:
        self._config, self._side, self._stream = config, side, stream
        self._version, self._repair = version, repair

    async def ensure(self, slot: SlotState | None, exported: Exported, *, has_past: bool) -> bool:
        """`slot` as it was seen before. True if it was created now."""
        if slot is not None and slot.invalidated:
            await self._drop(slot, has_past=has_past)
        elif slot is None and has_past:
            await self._note_missing()
        elif slot is None:
            self._check_may_create()
        is_wanted = slot is None or slot.invalidated is not None
        if self._config.source.publication.manage:
            await ensure_publication(self._side, self._config.source.publication, may_create=is_wanted)
        if is_wanted:
            await self._create(exported)
        return is_wanted

    async def confirmed(self) -> Lsn:
        """Read after the start: only then nobody else moves it."""
        name = self._config.source.slot.name
        state = await read_slot(self._side, name)
        if state is None:
            what = f"slot {name} vanished while it was started"
            raise self._repair.eased(StreamError(what, code="SLOT_MISSING", remedy=LOST_REMEDY))
        return state.confirmed

    async def start(self, command: str) -> None:
        await self.reading(self._stream.start(command))
        reach(Failpoint.READER_STREAM_STARTED)

    async def reading(self, step: Awaitable[None]) -> None:
        """Of a slot that is lost between our look and this step the next start hears."""
        try:
            await step
        except StreamError as error:
            state = await read_slot(self._side, self._config.source.slot.name)
            if state is None or state.invalidated:
                raise self._repair.eased(error) from error
            raise

    async def _note_missing(self) -> None:
        name = self._config.source.slot.name
        if await read_slot(self._side, name) is not None:
            raise TransientError(
                "another reader has just made the slot", code="EPOCH_RACE", remedy="The reader starts again."
            )
        loss = StreamError(
            f"slot {name} is gone, and this pipeline has read from it",
            code="SLOT_MISSING",
            remedy=f"{LOST_REMEDY} The steps are in docs/operations/slot-lost.md.",
        )
        if not self._config.source.slot.create:
            raise loss
        await self._note(GapReason.SLOT_MISSING, loss)

    async def _drop(self, slot: SlotState, *, has_past: bool) -> None:
        loss = invalidated(slot)
        if not has_past:
            raise loss
        await self._note(GapReason.SLOT_INVALIDATED, loss)
        await drop_invalidated(self._side, slot.name)
        reach(Failpoint.READER_SLOT_DROPPED)

    async def _note(self, reason: GapReason, loss: StreamError) -> None:
        await self._repair.note_loss(reason, loss, Lsn(await wal_end(self._side)))

    def _check_may_create(self) -> None:
        wanted = self._config.source.slot
        if not wanted.create:
            raise ConfigError(
                f"slot {wanted.name} does not exist and source.slot.create is false",
                code="SLOT_UNKNOWN",
                remedy=f"SELECT pg_create_logical_replication_slot({literal(wanted.name)}, 'pgoutput');",
            )

    async def _create(self, exported: Exported) -> None:
        is_exported = exported.is_wanted or self._repair.is_owed
        _, snapshot = await create_slot(self._stream, self._config.source.slot, self._version, export=is_exported)
        if snapshot:
            await exported.hold(snapshot)
        if self._repair.is_owed:
            reach(Failpoint.READER_SLOT_REMADE)
