"""Takes the file over while the stream flows: who the gate counts on, who is owed a snapshot.

    file has changed, or SIGHUP ─▶ checked apart ─▶ what a start would refuse in a new sink ─▶ in force ─▶ made good

| a sink that comes                                       | the file                                             |
| ------------------------------------------------------- | ---------------------------------------------------- |
| asks for whole rows that the source does not send       | is refused, as at a start                            |
| is required, and has an ack that the raw topic does not | is refused: a start would be GAP_LOST, and this      |
| reach back to while the source has let it go            | stands for all other sinks too                       |
| is required, and is to begin where the raw topic does   | is taken; `raw_watch` ends the reader, whose next    |
| not reach back to, while the source has it              | start feeds it                                       |
| else                                                    | is taken                                             |

Invariant: what can't be made good now, because Redis is away, is tried again each second; until then the gate counts on
whoever is in either configuration (`required_sinks`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tidegate.config.reloads import names
from tidegate.errors import ConfigError, TransientError
from tidegate.preflight.findings import Severity, raise_worst
from tidegate.preflight.whole_rows import examine_whole_rows
from tidegate_reader.required_sinks import RequiredSinks
from tidegate_reader.snapshot.coordinator import Snapshots
from tidegate_reader.sources.postgres_wal.session import SideConnection
from tidegate_reader.surroundings import Surroundings

if TYPE_CHECKING:
    from tidegate.config.pipeline import PipelineConfig

LOOK_SECONDS = 1.0


class ConfigurationWatch:
    def __init__(
        self,
        around: Surroundings,
        side: SideConnection,
        required: RequiredSinks,
        snapshots: Snapshots,
    ) -> None:
        self._around, self._side, self._reloads = around, side, around.reloads
        self._required, self._snapshots = required, snapshots
        self._is_made_good = True

    async def run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        try:
            if self._reloads.is_due():
                await self._read()
            if not self._is_made_good:
                await self._make_good()
        except TransientError as error:
            self._around.log.warning("config_waits", code=error.code, cause=error.message)
        self._tell()

    async def _read(self) -> None:
        try:
            new = await asyncio.to_thread(self._reloads.read)
            if new is None:
                return
            await self._check(new)
        except ConfigError as error:
            self._reloads.refuse(error)
        except TransientError:
            self._reloads.ask()
            raise
        else:
            self._reloads.take(new)
            self._is_made_good = False

    async def _check(self, new: PipelineConfig) -> None:
        """What comes, as a start would check it."""
        come = names(new) - names(self._reloads.in_force)
        found = await examine_whole_rows(self._side.fetch, new) if come else []
        findings = [each for each in found if each.path.split(".")[1] in come]
        for each in findings:
            if each.severity is Severity.CAUTION:
                self._around.log.warning(
                    "preflight", path=each.path, code=each.code, cause=each.cause, remedy=each.remedy
                )
        raise_worst(findings)
        await self._required.check(new, come)

    async def _make_good(self) -> None:
        config = self._reloads.in_force
        self._snapshots.follow(config)
        self._is_made_good = await self._required.change(config)
        if self._is_made_good:
            self._around.log.info("gate_counts_on", sinks=list(config.required_sinks))

    def _tell(self) -> None:
        complaint = self._reloads.complaint
        self._around.metrics.config_refused.set(float(complaint is not None))
        if complaint is not None:
            self._around.health.degraded("configuration", complaint)
        elif not self._is_made_good:
            self._around.health.degraded("configuration", "Redis does not answer: the gate counts on the sinks before")
        else:
            self._around.health.up("configuration")
