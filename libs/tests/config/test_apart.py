"""A configuration that another process checked: the same values, the same refusal, without the validator."""

import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from tidegate.config import checking
from tidegate.config.apart import Checking, Section
from tidegate.config.load import load_pipeline
from tidegate.errors import ConfigError, TransientError

FILE = """
pipeline: my-shop
source:
  dsn: postgresql://tidegate@db/shop
  password: ${env:SHOP_PASSWORD}
  tls: {ca: /ca.pem}
  publication: {tables: [public.orders, audit.*]}
kafka: {bootstrap: "broker:9092"}
raw_topic: {linger: 5ms, compression: lz4}
redis: {url: redis://cache}
tracing: {endpoint: "https://collector:4318", ratio: 0.25, headers: {authorization: "${env:SHOP_PASSWORD}"}}
sinks:
  - {name: events, type: kafka_topics}
  - {name: extra, type: kafka_topics, required: false}
"""
SECTIONS = ("source", "kafka", "redis", "tracing")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOP_PASSWORD", "canary")
    path = tmp_path / "pipeline.yaml"
    path.write_text(FILE)
    return path


def leaves(section: object, path: str = "") -> dict[str, Any]:
    if isinstance(section, Section):
        found: dict[str, Any] = {}
        for name, value in vars(section).items():
            found |= leaves(value, f"{path}.{name}")
        return found
    if isinstance(section, tuple) and section and isinstance(section[0], Section):
        return {key: value for at, each in enumerate(section) for key, value in leaves(each, f"{path}[{at}]").items()}
    return {path: section}


def test_what_comes_back_is_what_was_checked(path: Path) -> None:
    apart = Checking("reader", path, ["raw_topic.linger=7ms"], secrets=SECTIONS).outcome()

    assert leaves(apart) == leaves(checking.plain(load_pipeline(path, ["raw_topic.linger=7ms"])))


def test_values_have_their_types(path: Path) -> None:
    config, model = Checking("reader", path, secrets=SECTIONS).outcome(), load_pipeline(path)

    assert config.raw_topic.compression is model.raw_topic.compression
    assert config.source.tls.mode is model.source.tls.mode
    assert config.source.publication.tables == model.source.publication.tables
    assert config.raw_topic.linger == model.raw_topic.linger
    assert config.reader.http.port == 8081
    assert config.tracing is not None
    assert (config.tracing.ratio, config.tracing.headers["authorization"].reveal()) == (0.25, "canary")
    assert config.source.password is not None
    assert config.source.password.reveal() == "canary"
    assert (config.publication_names, config.required_sinks) == (("tidegate_my_shop",), ("events",))


def test_a_refusal_comes_back_whole(path: Path) -> None:
    path.write_text(FILE.replace("redis://cache", "http://cache").replace("lz4", "best"))
    with pytest.raises(ConfigError) as apart:
        Checking("reader", path, secrets=SECTIONS).outcome()
    with pytest.raises(ConfigError) as here:
        load_pipeline(path)

    assert (apart.value.code, apart.value.problems) == (here.value.code, here.value.problems)


def test_a_check_that_dies_is_tried_again_by_the_supervisor(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(TransientError) as caught:
        Checking("reader", path, secrets=SECTIONS).outcome()

    assert caught.value.code == "CONFIG_UNCHECKED"


def test_it_does_not_change(path: Path) -> None:
    with pytest.raises(AttributeError):
        Checking("reader", path, secrets=SECTIONS).outcome().raw_topic.name = "other"


def test_nothing_of_it_imports_the_validator(path: Path) -> None:
    program = (
        "import sys; from tidegate.config.apart import Checking; "
        f"Checking('reader', {str(path)!r}, secrets={SECTIONS!r}).outcome(); assert 'pydantic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_type_that_nobody_vouches_for_arrives_as_its_text() -> None:
    class Colour(StrEnum):
        RED = "red"

    assert type(checking.plain({"colour": Colour.RED})["colour"]) is str  # type: ignore[index]
