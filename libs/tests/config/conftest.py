"""A whole, small configuration as YAML gives it, for tests to break."""

from typing import Any

import pytest


@pytest.fixture
def document() -> dict[str, Any]:
    return {
        "pipeline": "shop",
        "source": {
            "dsn": "postgresql://tidegate@db:5432/shop",
            "password": "${env:PGPASSWORD}",
            "publication": {"tables": ["public.orders"]},
        },
        "kafka": {"bootstrap": "broker:9092"},
        "redis": {"url": "redis://cache:6379/0"},
        "sinks": [{"name": "events", "type": "kafka_topics"}],
    }


@pytest.fixture
def environ() -> dict[str, str]:
    return {"PGPASSWORD": "canary-7f3a"}
