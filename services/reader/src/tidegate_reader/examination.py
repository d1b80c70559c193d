"""The preflight: whatever is wrong at source, raw topic and Redis is told together, before anything is made.

Cautions are logged and the start goes on; `tidegate doctor` shows the same findings.
"""

import asyncio

from tidegate.preflight.findings import Severity, raise_worst
from tidegate.preflight.redis import examine_redis
from tidegate.preflight.source import examine_source
from tidegate.preflight.topic import examine_topic
from tidegate_reader.sources.postgres_wal.session import SideConnection
from tidegate_reader.surroundings import Surroundings


async def examine(around: Surroundings, side: SideConnection) -> None:
    config = around.config
    found = await asyncio.gather(
        examine_source(side.fetch, config, side.backend_pid),
        examine_topic(config.kafka, config.raw_topic),
        examine_redis(config.redis),
    )
    findings = [finding for part in found for finding in part]
    for each in findings:
        if each.severity is Severity.CAUTION:
            around.log.warning("preflight", path=each.path, code=each.code, cause=each.cause, remedy=each.remedy)
    raise_worst(findings)
