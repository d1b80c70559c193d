"""Whom the gate counts on, when the configuration changes under a running reader.

| step                          | the gate counts on | Redis says | dies behind it: the next start finds              |
| ----------------------------- | ------------------ | ---------- | ------------------------------------------------- |
| the file is taken             | the old            | the old    | the file, as any start does                       |
| whoever is in either is held  | both               | the old    | the same                                          |
| audit record of each who goes | both               | that too   | in the lineage who goes, and records it once more |
| lineage names the new         | both               | the new    | in the lineage who came: without an ack it is     |
|                               |                    |            | owed all from where confirmed stood, and stands   |
| the gate lets the others go   | the new            | the new    | the same                                          |

Redis away: it stays where it is, and is tried again with what the file says by then; who has been held is held until a
lineage without it is written, because one that names it may be there. Whoever is new and behind is *joining*: confirmed
stands until its ack has reached it, and does not go back. An ack that is there already, of before, counts as it is.

Invariant: confirmed passes nobody whom a lineage in Redis may name. Nobody whom the gate has counted on is let go
before that is recorded. What a sink without an ack is owed (`kept_from`) is what confirmed has not passed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.contracts.lineage import Lineage
from tidegate.errors import ConfigError
from tidegate.lsn import format_lsn
from tidegate_reader.keeper import Keeper
from tidegate_reader.raw_log import read_raw_log
from tidegate_reader.removed_sinks import tombstone
from tidegate_reader.resume import uncovered

if TYPE_CHECKING:
    from tidegate.config.pipeline import PipelineConfig


class RequiredSinks:
    def __init__(self, keeper: Keeper, lineage: Lineage, say: Callable[[Lineage], Awaitable[bool]]) -> None:
        """`say` writes a lineage, which is the one that is said from then on; whether Redis has it."""
        self._keeper, self._lineage, self._say = keeper, lineage, say
        self._held = lineage.required
        self._is_settled = True
        """A lineage in Redis names whom the gate counts on."""
        self._recorded: set[str] = set()
        """Who has been recorded as gone, and is held still."""

    @property
    def lineage(self) -> Lineage:
        return self._keeper.updated(self._lineage)

    async def check(self, new: PipelineConfig, come: Collection[str]) -> None:
        """Before it is in force: of these, who has a past behind which nobody has what it lacks."""
        acks, said = self._keeper.acks, self.lineage
        required = [sink for sink in new.required_sinks if sink in come and sink in acks]
        behind = [sink for sink in required if acks[sink].safe_lsn < self._keeper.confirmed]
        if not behind:
            return
        log = await read_raw_log(new.kafka, new.raw_topic.name, said.topic_id)
        lost = uncovered(log, said.topic_id, acks, behind, said.kept_from)
        if lost:
            raise ConfigError(
                f"{', '.join(lost)} has nothing beyond {format_lsn(acks[lost[0]].safe_lsn)}; the source has let go of "
                "what lies behind, and the raw topic does not hold it",
                code="SINK_LEFT_BEHIND",
                remedy="The name is known from before. Give the sink another one, with from: snapshot if it needs the "
                "rows; or required: false, and rewind its lane to what is left.",
            )

    async def change(self, config: PipelineConfig) -> bool:
        """Whether the gate counts on whom the configuration names, and on nobody else; else it is to be asked again.
        Raises if Redis does not take a record."""
        wanted = tuple(config.required_sinks)
        if self._is_settled and wanted == self._held:
            return True
        self._is_settled = False
        self._hold((*self._held, *(sink for sink in wanted if sink not in self._held)))
        await self._record(config, wanted)
        self._lineage = self._naming(wanted)
        if not await self._say(self.lineage):
            return False
        self._hold(wanted)
        self._recorded.clear()
        self._is_settled = True
        return True

    async def _record(self, config: PipelineConfig, wanted: tuple[str, ...]) -> None:
        self._recorded.difference_update(wanted)
        unrecorded = tuple(sink for sink in self._held if sink not in self._recorded)
        await tombstone(config, replace(self._lineage, required=unrecorded), self._keeper.acks)
        self._recorded.update(sink for sink in self._held if sink not in wanted)

    def _hold(self, sinks: tuple[str, ...]) -> None:
        self._held = sinks
        self._keeper.require(sinks)

    def _naming(self, wanted: tuple[str, ...]) -> Lineage:
        """While somebody who has acked nothing is held, confirmed stands; whoever was so before is owed from there."""
        before = self.lineage
        unacked = tuple(sink for sink in wanted if sink not in self._keeper.acks)
        is_owed = any(sink in before.unacked for sink in unacked)
        kept_from = before.kept_from if is_owed or not unacked else self._keeper.confirmed
        return replace(before, required=wanted, unacked=unacked, kept_from=kept_from)
