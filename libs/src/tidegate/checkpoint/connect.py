"""Connections to Redis, made in one way. The password is read anew at each call, so that a rotated one is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import redis
import redis.asyncio

if TYPE_CHECKING:
    from tidegate.config.redis import RedisConfig


# A service that waits longer than this for Redis treats it as gone; acks then come late, nothing else.
_TIMEOUT_SECONDS = 5.0


def connect(config: RedisConfig) -> redis.Redis:
    return redis.Redis.from_url(config.url, **_arguments(config))


def connect_async(config: RedisConfig) -> redis.asyncio.Redis:
    return redis.asyncio.Redis.from_url(config.url, **_arguments(config))


def _arguments(config: RedisConfig) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "socket_timeout": _TIMEOUT_SECONDS,
        "socket_connect_timeout": _TIMEOUT_SECONDS,
        "username": config.username,
        "password": config.password.reveal() if config.password else None,
    }
    if config.tls:
        arguments |= {
            "ssl_ca_certs": config.tls.ca,
            "ssl_certfile": config.tls.cert,
            "ssl_keyfile": config.tls.key,
        }
    return arguments
