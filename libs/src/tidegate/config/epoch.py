"""Stable names for what a configuration means, stored beside cursors.

Invariant: the same meaning gives the same epoch on every machine; where a secret comes from is no part of it, nor is
a field that stands at its default, so that a new field changes no epoch.
"""

import hashlib
import json
import re
from typing import Any

from tidegate.config.pipeline import PipelineConfig

_SERVICES_OWN = ("snapshot", "reader", "processor", "admin", "log")
_REFERENCE = re.compile(r"\$\{(env|file):[^}]*\}")


def config_epoch(config: PipelineConfig) -> str:
    """Of the whole pipeline, without the services' own settings, which change no event."""
    return _digest(
        config.model_dump(
            mode="json",
            by_alias=True,
            exclude_defaults=True,
            exclude=dict.fromkeys(_SERVICES_OWN, True) | {"tracing": {"endpoint", "headers", "ca"}},
        )
    )


def lane_epoch(config: PipelineConfig, sink: str) -> str:
    """Of what decides the bytes that one sink receives."""
    shape = config.sink(sink).model_dump(
        mode="json",
        by_alias=True,
        exclude_defaults=True,
        include={"name", "type", "routes", "transforms", "toast", "options"},
    )
    transforms = [transform.model_dump(mode="json", exclude_defaults=True) for transform in config.transforms]
    # A record of what is sampled may have a header more.
    traced = {} if config.tracing is None else {"traced": config.tracing.ratio}
    return _digest({"pipeline": config.pipeline, "transforms": transforms, "sink": shape} | traced)


def _digest(value: Any) -> str:  # plain JSON
    text = json.dumps(_without_secrets(value), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _without_secrets(value: Any) -> Any:  # plain JSON
    if isinstance(value, dict):
        return {key: _without_secrets(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_secrets(inner) for inner in value]
    return "secret" if isinstance(value, str) and _REFERENCE.fullmatch(value) else value
