"""The options of each kind of sink as JSON schema: what the admin API tells of them, which has no code of theirs."""

import json
from pathlib import Path

from tidegate.config.schema import json_schema
from tidegate_processor.sinks.registry import OPTIONS

PATH = "services/admin-api/src/tidegate_admin/sinks/options.json"


def render(_root: Path) -> str:
    schemas = {str(kind): json_schema(options) for kind, options in sorted(OPTIONS.items())}
    return json.dumps(schemas, indent=2, ensure_ascii=False) + "\n"
