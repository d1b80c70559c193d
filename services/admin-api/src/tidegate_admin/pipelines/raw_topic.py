"""Looks now and then whether the raw topic is still what a reader needs: a running one does not ask again.

Invariant: only reads, beside the looks at a pipeline: brokers that are away delay nobody. What could not be asked is
not known, and there is no figure then.
"""

import asyncio

from tidegate.config.pipeline import PipelineConfig
from tidegate.preflight.findings import Severity
from tidegate.preflight.topic import examine_topic

FIRST_SECONDS = 5.0
EVERY_SECONDS = 30.0


class RawTopicWatch:
    def __init__(self, config: PipelineConfig) -> None:
        self.wrong_settings: int | None = None
        """How many a reader would refuse."""
        self._config = config

    async def run(self, phase: float = 0.0) -> None:
        """Each pipeline at another time: it takes a connection of its own, and all at once would be felt."""
        await asyncio.sleep(FIRST_SECONDS + phase * EVERY_SECONDS)
        while True:
            await self.look()
            await asyncio.sleep(EVERY_SECONDS)

    async def look(self) -> None:
        findings = await examine_topic(self._config.kafka, self._config.raw_topic)
        about_it = [each for each in findings if each.code.startswith("RAW_TOPIC_")]
        is_unknown = len(about_it) < len(findings)
        refused = sum(each.severity is Severity.REFUSAL for each in about_it)
        self.wrong_settings = None if is_unknown else refused
