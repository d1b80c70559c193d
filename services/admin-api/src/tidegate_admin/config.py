"""What this service is told: one file a pipeline, one address, one token.

Invariant: an address that others can reach is refused without a token, before anything is bound.
"""

import ipaddress
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tidegate.config.base import Address, parse_address
from tidegate.config.load import load_pipeline
from tidegate.config.pipeline import PipelineConfig
from tidegate.errors import ConfigError, Problem

TOKEN_VARIABLE = "TIDEGATE_ADMIN_TOKEN"  # noqa: S105 - the variable's name
MIN_TOKEN_CHARACTERS = 16
SECRET_SECTIONS = ("source", "redis")
"""Whose secrets this service reads: it never talks to Kafka as a client of the pipeline."""

_PLACEHOLDERS = ("changeme", "change-me", "placeholder", "secret", "token", "password", "example")


@dataclass(frozen=True, slots=True)
class AdminSettings:
    pipelines: tuple[PipelineConfig, ...]
    http: Address
    token: str | None = field(default=None, repr=False)

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.http.host)


def load_settings(
    paths: Sequence[str | Path],
    overrides: Sequence[str] = (),
    listen: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> AdminSettings:
    pipelines = tuple(load_pipeline(path, overrides, environ, secrets=SECRET_SECTIONS) for path in paths)
    problems = [*_duplicates(pipelines), *_addresses(pipelines, listen)]
    http = _listen_address(listen) if listen else pipelines[0].admin.http
    token = environ.get(TOKEN_VARIABLE) or None
    problems += _token_problems(http, token)
    if problems:
        raise ConfigError("the admin service cannot start like this", code="ADMIN_CONFIG", problems=tuple(problems))
    return AdminSettings(pipelines, http, token)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listen_address(listen: str) -> Address:
    try:
        return parse_address(listen)
    except ValueError as error:
        raise ConfigError(
            "--listen is not an address", code="ADMIN_LISTEN", remedy="Write 127.0.0.1:8080 or [::1]:8080."
        ) from error


def _duplicates(pipelines: Sequence[PipelineConfig]) -> list[Problem]:
    names = [pipeline.pipeline for pipeline in pipelines]
    return [
        Problem(
            "--config",
            code="PIPELINE_DUPLICATE",
            reason=f"{name} is given by more than one file",
            remedy="Give each pipeline a name of its own.",
        )
        for name in sorted({name for name in names if names.count(name) > 1})
    ]


def _addresses(pipelines: Sequence[PipelineConfig], listen: str | None) -> list[Problem]:
    if listen or len({pipeline.admin.http for pipeline in pipelines}) == 1:
        return []
    return [
        Problem(
            "admin.http",
            code="ADMIN_ADDRESS_AMBIGUOUS",
            reason="the files name different addresses",
            remedy="Name one with --listen.",
        )
    ]


def _token_problems(http: Address, token: str | None) -> list[Problem]:
    if token is None and not is_loopback(http.host):
        return [
            Problem(
                "admin.http",
                code="ADMIN_TOKEN_MISSING",
                reason="others can reach this address, and no token protects it",
                remedy=f"Set {TOKEN_VARIABLE} to a long random value, or listen on 127.0.0.1.",
            )
        ]
    if token is not None and (len(token) < MIN_TOKEN_CHARACTERS or token.lower() in _PLACEHOLDERS):
        return [
            Problem(
                TOKEN_VARIABLE,
                code="ADMIN_TOKEN_WEAK",
                reason=f"a token has at least {MIN_TOKEN_CHARACTERS} characters",
                remedy="Draw one: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'.",
            )
        ]
    return []
