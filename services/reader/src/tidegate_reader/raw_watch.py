"""Looks whether the raw topic still holds what required sinks have not read, when retention has taken from its head
and when Redis knows of a sink that it did not know of before, or the other way round: a lane whose ack is forgotten,
and whose cursor went with the topic that was there before, begins anew. And when the gate counts on others than before.

Invariant: a sink that retention overtakes is fed again while the source still keeps what it lacks, and rows of a
snapshot that it lacks are read again: the reader ends, and its next start decides. Nothing is decided here. After a
failover the raw topic always holds an epoch frame of the newest epoch (decision 24).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from tidegate.contracts.ack import Ack
from tidegate.contracts.epoch import EpochMode
from tidegate.contracts.lineage import Lineage
from tidegate.errors import TransientError
from tidegate.kafka_client import client_options
from tidegate.position import before
from tidegate_reader.keeper import Keeper
from tidegate_reader.opening import Run
from tidegate_reader.progress import Progress
from tidegate_reader.raw_log import RawLog, read_raw_log
from tidegate_reader.raw_topic import unavailable
from tidegate_reader.resume import uncovered

if TYPE_CHECKING:
    from tidegate.config.pipeline import PipelineConfig

Beginning = Callable[[], Awaitable[int | None]]
LostSnapshots = Callable[[Mapping[str, Ack], int], Sequence[str]]
"""Those of which sinks with these acks lack rows, in a raw topic that begins there."""

_ANSWER_SECONDS = 30.0
_FORGOTTEN_SECONDS = 15.0
"""A lane that lives says its ack again every five."""


class RawWatch:
    def __init__(
        self,
        config: PipelineConfig,
        opened: Run,
        keeper: Keeper,
        beginning: Beginning,
        progress: Progress,
        lost_snapshots: LostSnapshots = lambda _acks, _beginning: (),
        said: Callable[[], Lineage] | None = None,
    ) -> None:
        """`said`: whom the gate counts on by now, and what is kept for those without an ack."""
        self._config, self._opened, self._keeper = config, opened, keeper
        self._ask, self._progress, self._lost = beginning, progress, lost_snapshots
        self._missed = {sink: ack.missed for sink, ack in opened.acks.items()}
        self._is_suspected = False
        """Rows of a snapshot seem lost. An ack may be on its way that says otherwise, so the next look decides."""
        progress.raw_beginning = opened.beginning
        self._heard_of = set(opened.acks)
        self._said = said or (lambda: opened.lineage)
        self._required = self._said().required
        self._forgotten_since: float | None = None

    async def run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(self._config.reader.look_every.total_seconds())

    async def look(self) -> None:
        config, beginning, acks, told = self._config, await self._ask(), dict(self._keeper.acks), self._keeper.told
        has_moved = beginning not in (None, self._progress.raw_beginning)
        if self._heard_of <= told.keys():
            self._forgotten_since = None
        required = self._said().required
        missed = {sink: ack.missed for sink, ack in acks.items()}
        is_news = told.keys() != self._heard_of or required != self._required or missed != self._missed
        if has_moved or self._is_suspected or is_news:
            try:
                log = await read_raw_log(config.kafka, config.raw_topic.name, self._opened.lineage.topic_id)
            except TransientError:
                return  # as where Kafka does not say; looked at again
            self._check_snapshots(log, acks)
            self._check(log, acks, told)
            self._progress.raw_beginning, self._required, self._missed = log.beginning, required, missed
            self._heard_of = set(told) if self._forgotten_since is None else self._heard_of

    def _check_snapshots(self, log: RawLog, acks: Mapping[str, Ack]) -> None:
        """No position tells of these: a sink that lacks them goes on behind them as if there had been none."""
        lost = self._lost(acks, log.beginning)
        if lost and self._is_suspected:
            raise TransientError(
                f"retention took rows of {'a snapshot' if len(lost) == 1 else f'{len(lost)} snapshots'} from the raw"
                " topic before every required sink had them",
                code="RAW_TOPIC_OVERTAKES_SNAPSHOT",
                remedy="Nothing is lost: the reader starts again and reads these tables anew. If it repeats, the lane "
                "is down, or raw_topic.retention is too short for it.",
            )
        self._is_suspected = bool(lost)

    def _check(self, log: RawLog, acks: Mapping[str, Ack], told: Mapping[str, Ack]) -> None:
        self._check_witness(log)
        missing = self._uncovered(log, acks) or self._forgotten(self._uncovered(log, told))
        if missing:
            raise TransientError(
                f"retention took from the raw topic what {', '.join(missing)} had not read",
                code="RAW_TOPIC_OVERTAKES",
                remedy="Nothing is lost: the reader starts again and feeds what the source has kept. If it repeats, "
                "the lane is down, or raw_topic.retention is too short for it.",
            )

    def _uncovered(self, log: RawLog, acks: Mapping[str, Ack]) -> Sequence[str]:
        run = self._opened
        if run.plan.mode is not EpochMode.CONTINUE and log.beginning <= run.stamp.offset:
            return ()
        said = self._said()
        missing = uncovered(log, said.topic_id, acks, said.required, said.kept_from)
        begins_here = log.beginning <= run.stamp.offset and run.plan.position <= before(said.kept_from)
        return [sink for sink in missing if sink in acks or not begins_here]

    def _forgotten(self, sinks: Sequence[str]) -> Sequence[str]:
        """Those that only an ack covers which Redis has not any more, if nobody has said it again."""
        if not sinks:
            self._forgotten_since = None
            return ()
        now = time.monotonic()
        self._forgotten_since = now if self._forgotten_since is None else self._forgotten_since
        return sinks if now - self._forgotten_since > _FORGOTTEN_SECONDS else ()

    def _check_witness(self, log: RawLog) -> None:
        """What an epoch frame does not say is of the generation's own timeline, where Redis does not know better."""
        stamp, branch = self._opened.stamp, self._opened.lineage.branch
        is_elsewhere = branch is not None and branch.timeline != stamp.generation.timeline
        if is_elsewhere and log.beginning > stamp.offset:
            raise TransientError(
                "retention took the epoch frame that tells on which timeline the pipeline is",
                code="EPOCH_FRAME_TRIMMED",
                remedy="Nothing is lost: the reader starts again and says it anew, once in raw_topic.retention.",
            )


class RawLook:
    """A consumer that only asks where the raw topic begins."""

    def __init__(self, config: PipelineConfig) -> None:
        self._consumer: Any = AIOKafkaConsumer(**client_options(config.kafka), enable_auto_commit=False)
        self._partition = TopicPartition(config.raw_topic.name, 0)

    async def beginning(self) -> int | None:
        """None: Kafka does not say. If it stays away, the publisher ends the epoch."""
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                offsets = await self._consumer.beginning_offsets([self._partition])
        except (KafkaError, TimeoutError):
            return None
        beginning: int = offsets[self._partition]
        return beginning

    async def open(self) -> None:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await self._consumer.start()
        except KafkaError as error:
            raise unavailable(error) from error
        except TimeoutError:
            raise unavailable(None) from None

    async def close(self) -> None:
        await self._consumer.stop()
