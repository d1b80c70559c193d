"""Pipeline configurations for tests, on whatever servers the fixtures gave."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from tidegate.config.load import pipeline_from
from tidegate.config.pipeline import PipelineConfig
from tidegate.config.source import PostgresSource

REDIS_PASSWORD = "TIDEGATE_TEST_REDIS_PASSWORD"
POSTGRES_PASSWORD = "TIDEGATE_TEST_POSTGRES_PASSWORD"


def document(name: str, *, kafka: str, redis_url: str, postgres: str = "", **more: Any) -> dict[str, Any]:
    """The YAML's content; secrets are named, their values are in `secrets_of`."""
    redis = urlsplit(redis_url)
    source = urlsplit(postgres or "postgresql://nobody@127.0.0.1:5432/none")
    services = ("reader", "processor", "admin")
    return {
        "pipeline": name,
        "source": {
            "type": "postgres",
            "dsn": f"postgresql://{source.username}@{source.hostname}:{source.port}{source.path}",
            "password": f"${{env:{POSTGRES_PASSWORD}}}",
            "publication": {"manage": True, "tables": ["public.*"]},
        },
        "kafka": {"bootstrap": kafka},
        "redis": {"url": f"redis://{redis.hostname}:{redis.port}/0", "password": f"${{env:{REDIS_PASSWORD}}}"},
        "sinks": [{"name": "events", "type": "kafka_topics"}],
        **more,
        **{name: {"http": f"127.0.0.1:{free_port()}"} | more.get(name, {}) for name in services},
    }


def written(folder: Path, values: dict[str, Any]) -> Path:
    file = folder / "pipeline.yaml"
    file.write_text(yaml.safe_dump(values))
    return file


def secrets_of(*, redis_url: str, postgres: str = "") -> dict[str, str]:
    return {
        REDIS_PASSWORD: urlsplit(redis_url).password or "none",
        POSTGRES_PASSWORD: (urlsplit(postgres).password if postgres else None) or "none",
    }


def checked(values: dict[str, Any], environ: dict[str, str]) -> PipelineConfig:
    return pipeline_from(values, (), environ)


def source_of(dsn: str, set_variable: Callable[[str, str], None]) -> PostgresSource:
    """On that server. Passwords are read from the environment, each time that somebody connects."""
    values = document("shop", kafka="127.0.0.1:9", redis_url="redis://127.0.0.1:9/0", postgres=dsn)
    password = f"PASSWORD_OF_{urlsplit(dsn).username}".upper()
    values["source"]["password"] = f"${{env:{password}}}"
    given = secrets_of(redis_url="redis://127.0.0.1:9/0") | {password: urlsplit(dsn).password or "none"}
    for name, secret in given.items():
        set_variable(name, secret)
    return checked(values, given).source


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
