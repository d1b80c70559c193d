"""Redis: that it keeps acks, and does not throw them away when it is full."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import redis
import redis.asyncio

from tidegate.checkpoint.connect import connect_async
from tidegate.errors import ConfigError
from tidegate.preflight.findings import Finding, caution, refusal, unknown

if TYPE_CHECKING:
    from tidegate.config.redis import RedisConfig

PATH = "redis"


async def examine_redis(config: RedisConfig) -> list[Finding]:
    try:
        async with connect_async(config) as client:
            return judge_redis(await client.info())
    except ConfigError as error:
        return [refusal(PATH, code=error.code, reason=error.message, remedy=error.remedy)]
    except redis.AuthenticationError:
        remedy = "Check redis.username and redis.password."
        return [refusal(PATH, code="REDIS_REFUSED", reason="Redis refuses the user or the password", remedy=remedy)]
    except redis.exceptions.NoPermissionError:
        reason = "the user may not ask INFO, so it is not known whether Redis evicts"
        return [caution(PATH, code="REDIS_UNSEEN", reason=reason, remedy="ACL SETUSER … +info.")]
    except (redis.RedisError, OSError) as error:
        reason = f"Redis cannot be reached: {type(error).__name__}"
        remedy = "Check address, TLS and that the server is up; nothing is confirmed without it."
        return [unknown(PATH, code="ACK_STORE_UNAVAILABLE", reason=reason, remedy=remedy)]


def judge_redis(info: Mapping[str, Any]) -> list[Finding]:
    findings = []
    if info.get("role") == "slave":
        reason = "this Redis is a replica: acks cannot be written there"
        remedy = "Name the primary, or an address that follows it."
        findings.append(refusal(PATH, code="REDIS_REPLICA", reason=reason, remedy=remedy))
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        finding = refusal if info.get("maxmemory") and str(policy).startswith("allkeys") else caution
        findings.append(
            finding(
                PATH,
                code="REDIS_EVICTS",
                reason=f"its maxmemory-policy is {policy}: acks may be thrown away, and the slot then waits",
                remedy="CONFIG SET maxmemory-policy noeviction; or give Tidegate a Redis of its own.",
            )
        )
    if not info.get("aof_enabled") and not info.get("rdb_saves", 1) and not info.get("rdb_last_save_time"):
        reason = "nothing is kept on disk: after a restart no ack is known until the lanes have acked anew"
        findings.append(caution(PATH, code="REDIS_FORGETS", reason=reason, remedy="CONFIG SET appendonly yes."))
    return findings
