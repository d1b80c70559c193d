"""`tidegate validate` with every member installed: the mistakes of all of them in one answer."""

import json
import subprocess
import sys
from pathlib import Path

PIPELINE = """
pipeline: Shop
source: {dsn: "postgresql://u@localhost:5432/shop"}
kafka: {bootstrap: "localhost:9092"}
redis: {url: "redis://localhost:6379/0"}
sinks:
  - {name: events, type: kafka_topics, options: {partitons: 3, topic: "{tabel}"}}
"""


def test_mistakes_in_a_sinks_options_are_told_with_all_others(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE)
    command = [str(Path(sys.executable).with_name("tidegate")), "validate", str(file), "--json"]

    said = subprocess.run(command, capture_output=True, check=False, timeout=60)

    paths = {problem["path"] for problem in json.loads(said.stdout)["problems"]}
    assert said.returncode == 2
    assert {"pipeline", "sinks[0].options.partitons", "sinks[0].options.topic"} <= paths
