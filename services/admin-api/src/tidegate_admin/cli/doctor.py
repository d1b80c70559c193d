"""`tidegate doctor`: what the reader looks at before it starts, told for people or programs. It changes nothing."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from rich.text import Text

from tidegate.config.load import load_pipeline
from tidegate.config.pipeline import PipelineConfig
from tidegate.errors import ConfigError, ExitCode
from tidegate.preflight.findings import Finding, Severity, refusal, unknown
from tidegate.preflight.redis import examine_redis
from tidegate.preflight.source import examine_source
from tidegate.preflight.topic import examine_topic
from tidegate_admin.cli import output
from tidegate_admin.slots.service import connection_arguments

_SECONDS = 20.0
_STYLES = {Severity.REFUSAL: "bold red", Severity.UNKNOWN: "bold magenta", Severity.CAUTION: "bold yellow"}
_EXIT_CODES = {Severity.REFUSAL: ExitCode.CONFIGURATION, Severity.UNKNOWN: ExitCode.RETRY}


def run(file: Path, overrides: list[str], *, as_json: bool) -> int:
    config = load_pipeline(file, overrides, secrets=("source", "kafka", "redis"))
    findings = asyncio.run(look(config))
    if as_json:
        output.json({"pipeline": config.pipeline, "findings": [asdict(each) for each in findings]})
    else:
        _tell(config, findings)
    severities = {each.severity for each in findings}
    return next((code for severity, code in _EXIT_CODES.items() if severity in severities), ExitCode.CLEAN)


async def look(config: PipelineConfig) -> list[Finding]:
    found = await asyncio.gather(
        _source(config),
        examine_topic(config.kafka, config.raw_topic),
        examine_redis(config.redis),
    )
    return [finding for part in found for finding in part]


async def _source(config: PipelineConfig) -> list[Finding]:
    try:
        async with (
            asyncio.timeout(_SECONDS),
            await psycopg.AsyncConnection.connect(**connection_arguments(config.source)) as connection,
        ):

            async def ask(
                query: LiteralString, parameters: Sequence[object] | Mapping[str, object] = (), /
            ) -> list[tuple[Any, ...]]:
                cursor = await connection.execute(query, parameters or None)
                return await cursor.fetchall()

            return await examine_source(ask, config, connection.info.backend_pid)
    except ConfigError as error:
        return [refusal("source", code=error.code, reason=error.message, remedy=error.remedy)]
    except (psycopg.Error, OSError, TimeoutError) as error:
        return [_unasked(error)]


def _unasked(error: Exception) -> Finding:
    """The first line of libpq's text names host, user and database, and holds no secret."""
    said = str(error).strip().splitlines() if isinstance(error, psycopg.OperationalError) else []
    return unknown(
        "source",
        code="SOURCE_UNREACHABLE",
        reason=f"PostgreSQL cannot be asked: {said[0] if said else type(error).__name__}",
        remedy="Check that the server is up and reachable, and host, user, password, tls and pg_hba.conf.",
    )


def _tell(config: PipelineConfig, findings: list[Finding]) -> None:
    console = output.data()
    for each in sorted(findings, key=lambda finding: list(Severity).index(finding.severity)):
        head = (f"{each.severity} {each.code}", _STYLES[each.severity])
        console.print(Text.assemble(head, f" at {each.path}: {each.cause}"), soft_wrap=True)
        console.print(Text(f"    {each.remedy}"), soft_wrap=True)
    if not findings:
        console.print(f"{config.pipeline}: source, raw topic and Redis are in order", highlight=False)
