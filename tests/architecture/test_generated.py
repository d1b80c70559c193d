"""What is generated is committed as generated, and what is written about it is true."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tidegate.config.load import load_pipeline
from tidegate_processor.sinks.kafka_topics.config import KafkaTopicsOptions

ROOT = Path(__file__).resolve().parents[2]


def generate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools/generate.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_every_page_is_as_it_would_be_generated() -> None:
    done = generate("--check")

    assert done.returncode == 0, done.stdout + done.stderr


def test_a_page_that_went_stale_is_named(tmp_path: Path) -> None:
    written = generate("--root", str(tmp_path))
    unchanged = generate("--root", str(tmp_path), "--check")
    with (tmp_path / "docs/reference/configuration.md").open("a") as page:
        page.write("by hand\n")
    stale = generate("--root", str(tmp_path), "--check")

    assert (written.returncode, unchanged.returncode, stale.returncode) == (0, 0, 1)
    assert "docs/reference/configuration.md is not what would be generated" in stale.stdout


def test_every_field_of_the_configuration_is_described() -> None:
    schema = yaml.safe_load((ROOT / "docs/reference/pipeline.schema.json").read_text())

    silent = [f"{model}.{key}" for model, key, field in _fields(schema) if not field.get("description")]

    assert silent == []


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.name)
def test_an_example_is_a_good_configuration(path: Path) -> None:
    config = load_pipeline(path, (), {"PGPASSWORD": "x"}, option_models={"kafka_topics": KafkaTopicsOptions})

    assert config.required_sinks


def _fields(schema: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    models = {"PipelineConfig": schema, **schema["$defs"]}
    return [(name, key, field) for name, model in models.items() for key, field in model.get("properties", {}).items()]
