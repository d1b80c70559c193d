"""What the reader's process is kept free of, because each of them costs megabytes for as long as it lives."""

import subprocess
import sys


def test_neither_the_validator_nor_what_sends_spans_is_part_of_the_process() -> None:
    load = "import sys, tidegate_reader.main as main; main.load_service(); "
    program = load + "print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert {"pydantic", "pydantic_core", "yaml"}.isdisjoint(done.stdout.split())
    assert {"opentelemetry", "requests", "google"}.isdisjoint(done.stdout.split())
