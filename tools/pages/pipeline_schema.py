"""The JSON schema of pipeline.yaml, for editors and for the admin API."""

import json
from pathlib import Path

from tidegate.config.pipeline import PipelineConfig
from tidegate.config.schema import json_schema

PATH = "docs/reference/pipeline.schema.json"


def render(_root: Path) -> str:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **json_schema(PipelineConfig)}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
