"""What this service is told: one file a pipeline, one address, one file of tokens.

Invariant: an address that others can reach is refused without tokens, before anything is bound.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tidegate.config.base import Address, parse_address
from tidegate.config.load import load_pipeline
from tidegate.config.pipeline import PipelineConfig
from tidegate.config.reloads import Reloads
from tidegate.errors import ConfigError, Problem
from tidegate_admin.security.egress import Egress
from tidegate_admin.security.limits import Limits
from tidegate_admin.security.origin import is_loopback
from tidegate_admin.security.tokens import TOKENS_VARIABLE, read_tokens

SECRET_SECTIONS = ("source", "redis", "kafka")
"""Whose secrets this service reads: sinks' are the processor's."""


@dataclass(frozen=True, slots=True)
class AdminSettings:
    pipelines: tuple[PipelineConfig, ...]
    http: Address
    tokens: Path | None = None
    """Written by `tidegate token`; none: whoever is on this machine may read and operate."""
    state: Path | None = None
    """Where indexes are kept over a restart; none: they are built anew."""
    egress: Egress = field(default_factory=Egress)
    limits: Limits = field(default_factory=Limits)
    files: Mapping[str, Path] = field(default_factory=dict)
    """Of each pipeline, its configuration."""
    reloads: tuple[Reloads, ...] = ()
    """Of each of these files; `pipelines` is what they said at the start."""


@dataclass(frozen=True, slots=True)
class Told:
    """The command line."""

    listen: str | None = None
    tokens: str | None = None
    state: str | None = None
    allow_urls: Sequence[str] = ()
    limits: Limits = field(default_factory=Limits)


def load_settings(
    paths: Sequence[str | Path],
    overrides: Sequence[str] = (),
    told: Told = Told(),
    environ: Mapping[str, str] = os.environ,
) -> AdminSettings:
    loads = [partial(load_pipeline, path, overrides, environ, secrets=SECRET_SECTIONS) for path in paths]
    pipelines = tuple(load() for load in loads)
    problems = [*_duplicates(pipelines), *_addresses(pipelines, told.listen)]
    http = _listen_address(told.listen) if told.listen else pipelines[0].admin.http
    named = told.tokens or environ.get(TOKENS_VARIABLE)
    tokens = Path(named) if named else None
    problems += _token_problems(http, tokens)
    if problems:
        raise ConfigError("the admin service cannot start like this", code="ADMIN_CONFIG", problems=tuple(problems))
    return AdminSettings(
        pipelines,
        http,
        tokens,
        Path(told.state) if told.state else None,
        Egress(tuple(told.allow_urls)),
        told.limits,
        files={config.pipeline: Path(path) for config, path in zip(pipelines, paths, strict=True)},
        reloads=tuple(
            Reloads("admin", Path(path), config, load)
            for path, config, load in zip(paths, pipelines, loads, strict=True)
        ),
    )


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


def _token_problems(http: Address, tokens: Path | None) -> list[Problem]:
    try:
        there = read_tokens(tokens) if tokens else ()
    except ConfigError as error:
        return [Problem("--tokens", error.code, error.message, error.remedy)]
    if there or (tokens is None and is_loopback(http.host)):
        return []
    reason = "the file of tokens holds none" if tokens else "others can reach this address, and no token protects it"
    return [
        Problem(
            "admin.http",
            code="ADMIN_TOKEN_MISSING",
            reason=reason,
            remedy=f"Make one with `tidegate token create` and name its file with --tokens or {TOKENS_VARIABLE}.",
        )
    ]
