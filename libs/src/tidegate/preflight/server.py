"""The server itself: version, settings that decide whether and how long it can be read, and who answers for it."""

from dataclasses import dataclass, field

from tidegate.preflight.ask import Ask
from tidegate.preflight.findings import Finding, caution, refusal

OLDEST = 10
OLDEST_SUPPORTED = 15
"""PostgreSQL keeps a major for five years; 14 ended in November 2026."""
OLDEST_TESTED = 14
OLDEST_STANDBY = 16
# Below these a DDL beside an open transaction is decoded with the old catalogue, or mending that ran out of memory
# (release notes of 14.18/15.13/16.9/17.5 and of 14.19/15.14/16.10/17.6).
SAFE_MINORS = {14: 19, 15: 14, 16: 10, 17: 6, 18: 0}
SMALL_KEEP_MEGABYTES = 1024

_SETTINGS = (
    "wal_level",
    "max_slot_wal_keep_size",
    "idle_replication_slot_timeout",
    "hot_standby_feedback",
    "logical_decoding_work_mem",
)


@dataclass(frozen=True, slots=True)
class ServerFacts:
    version: int
    """As server_version_num."""
    settings: dict[str, str] = field(default_factory=dict)
    """In their base units; what this version does not know is absent."""
    is_standby: bool = False
    backend_pid: int = 0
    announced_pid: int = 0

    @property
    def major(self) -> int:
        return self.version // 10_000

    @property
    def minor(self) -> int:
        return self.version % 10_000


async def version_of(ask: Ask) -> int:
    return int((await ask("SHOW server_version_num"))[0][0])


async def examine_server(ask: Ask, version: int, announced_pid: int) -> list[Finding]:
    settings = dict(await ask("SELECT name, setting FROM pg_settings WHERE name = ANY(%s)", [list(_SETTINGS)]))
    [(is_standby, backend_pid)] = await ask("SELECT pg_is_in_recovery(), pg_backend_pid()")
    return judge_server(ServerFacts(version, settings, is_standby, backend_pid, announced_pid))


def judge_server(facts: ServerFacts) -> list[Finding]:
    return [*_version(facts), *_wal_level(facts), *_standby(facts), *_keeping(facts), *_pooler(facts)]


def _version(facts: ServerFacts) -> list[Finding]:
    if facts.major < OLDEST:
        reason = "PostgreSQL before 10 has no pgoutput"
        return [refusal("source", code="SERVER_TOO_OLD", reason=reason, remedy="Upgrade the server.")]
    findings = []
    if facts.major < OLDEST_SUPPORTED:
        more = "; its logical messages and those of other sessions are not sent" if facts.major < OLDEST_TESTED else ""
        reason = f"PostgreSQL {facts.major} gets no more corrections{more}"
        remedy = f"Plan an upgrade to {max(SAFE_MINORS)}."
        findings.append(caution("source", code="SERVER_UNSUPPORTED", reason=reason, remedy=remedy))
    safe = SAFE_MINORS.get(facts.major, 0)
    if facts.minor < safe:
        findings.append(
            caution(
                "source",
                code="SERVER_MINOR",
                reason=f"{facts.major}.{facts.minor} may decode rows wrongly after a DDL beside open transactions",
                remedy=f"Install {facts.major}.{safe} or later; a minor needs only a restart.",
            )
        )
    return findings


def _wal_level(facts: ServerFacts) -> list[Finding]:
    if facts.settings.get("wal_level") == "logical":
        return []
    remedy = "ALTER SYSTEM SET wal_level = 'logical'; then restart the server."
    return [refusal("source", code="WAL_LEVEL", reason="wal_level is not logical", remedy=remedy)]


def _standby(facts: ServerFacts) -> list[Finding]:
    if not facts.is_standby:
        return []
    if facts.major < OLDEST_STANDBY:
        reason = "the server is a standby, which decodes from PostgreSQL 16 on"
        return [refusal("source.host", code="SERVER_STANDBY", reason=reason, remedy="Point source at the primary.")]
    findings = [
        caution(
            "source.host",
            code="SERVER_IS_STANDBY",
            reason="the server is a standby: no heartbeat can be written there, and reading ends with its promotion",
            remedy="Read the primary unless this is meant; on it call pg_log_standby_snapshot() if the slot is slow.",
        )
    ]
    if facts.settings.get("hot_standby_feedback") == "off":
        reason = "hot_standby_feedback is off: the primary may remove rows that the slot needs, which loses the slot"
        remedy = "ALTER SYSTEM SET hot_standby_feedback = on; and reload, with a physical slot on the primary."
        findings.append(caution("source.host", code="STANDBY_FEEDBACK", reason=reason, remedy=remedy))
    return findings


def _keeping(facts: ServerFacts) -> list[Finding]:
    findings = []
    keep = int(facts.settings.get("max_slot_wal_keep_size", "0"))
    if keep == -1:
        reason = "max_slot_wal_keep_size has no limit: while the reader is away, its slot may fill the server's disk"
        remedy = "ALTER SYSTEM SET max_slot_wal_keep_size to what the disk can spare; and reload."
        findings.append(caution("source", code="SLOT_WAL_UNLIMITED", reason=reason, remedy=remedy))
    elif 0 < keep < SMALL_KEEP_MEGABYTES:
        reason = f"max_slot_wal_keep_size is {keep} MB: the server gives the slot up after that much WAL"
        remedy = "Raise it above the WAL that is written while a sink may be down."
        findings.append(caution("source", code="SLOT_WAL_SMALL", reason=reason, remedy=remedy))
    if facts.settings.get("idle_replication_slot_timeout", "0") != "0":
        reason = "idle_replication_slot_timeout is set: the server gives the slot up when the reader is away that long"
        remedy = "Set it to 0, or above the longest time that the reader may be down."
        findings.append(caution("source", code="SLOT_IDLE_TIMEOUT", reason=reason, remedy=remedy))
    return findings


def _pooler(facts: ServerFacts) -> list[Finding]:
    if facts.backend_pid == facts.announced_pid:
        return []
    return [
        caution(
            "source.host",
            code="POOLER",
            reason="a connection pooler stands in between: settings of a session may reach another one, and most "
            "poolers refuse replication",
            remedy="Name the server's own address and port.",
        )
    ]
