"""tools/house.py finds each thing it is there to find, and finds nothing in a tree that is in order."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBS = "libs/src/tidegate"
PROCESSOR = "services/spark-processor/src/tidegate_processor"
SINK = f"{PROCESSOR}/sinks/webhook"
DOC = '"""Purpose."""\n'
HEADINGS = "".join(f"## {h}\n" for h in ("What it does", "Guarantee", "Options", "Failures and what to do", "Limits"))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A workspace in order, with one sink."""
    for member in ("libs", "services/reader", "services/spark-processor", "services/admin-api"):
        for name in ("pyproject.toml", "README.md", "tests/test_it.py"):
            put(tmp_path, f"{member}/{name}", "")
    for name in ("__init__", "config", "encode", "writer"):
        put(tmp_path, f"{SINK}/{name}.py", DOC)
    put(tmp_path, f"{SINK}/README.md", HEADINGS)
    put(tmp_path, f"{SINK}/tests/test_webhook.py", "")
    return tmp_path


def put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def house(root: Path) -> tuple[int, str]:
    command = [sys.executable, str(ROOT / "tools/house.py"), "--root", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_a_tree_in_order_passes(tree: Path) -> None:
    assert house(tree) == (0, "house: in order\n")


@pytest.mark.parametrize(
    ("path", "text", "rule"),
    [
        (f"{LIBS}/long.py", DOC + "x = 1\n" * 300, "file-length"),
        (f"{LIBS}/a.py", DOC + "def f():\n" + "    x = 1\n" * 60, "function-length"),
        (f"{LIBS}/a.py", "x = 1\n", "module-docstring"),
        (f"{LIBS}/utils.py", DOC, "vague-name"),
        (f"{LIBS}/helpers/a.py", DOC, "vague-name"),
        (f"{LIBS}/types.py", DOC, "vague-name"),
        (f"{LIBS}/a.py", DOC + "from . import b\n", "relative-import"),
        (f"{LIBS}/a.py", DOC + "try:\n    f()\nexcept Exception:\n    pass\n", "broad-except"),
        (f"{LIBS}/a.py", DOC + "try:\n    f()\nexcept (OSError, Exception):\n    pass\n", "broad-except"),
        (f"{LIBS}/a.py", DOC + "try:\n    f()\nexcept:\n    pass\n", "broad-except"),
        (f"{LIBS}/a.py", DOC + "with contextlib.suppress(Exception):\n    f()\n", "broad-except"),
        ("libs/tests/test_a.py", "import time\ntime.sleep(1)\n", "sleep-in-test"),
        ("tests/e2e/test_a.py", "async def test_a():\n    await asyncio.sleep(0.1)\n", "sleep-in-test"),
        ("libs/tests/test_a.py", "from unittest.mock import Mock\n", "mock"),
        ("libs/tests/test_a.py", "from unittest import mock\n", "mock"),
        (f"{PROCESSOR}/toast.py", DOC + "import pyspark.sql\n", "pyspark"),
        (f"{PROCESSOR}/toast.py", DOC + "def f():\n    from pyspark import sql\n", "pyspark"),
        (f"{SINK}/encode.py", DOC + "import httpx\n", "client-outside-writer"),
        (f"{SINK}/encode.py", DOC + "from tidegate_processor.sinks.file import config\n", "parts-import-each-other"),
        (f"{SINK}/README.md", HEADINGS.replace("Guarantee", "Promise"), "part-shape"),
        (f"{PROCESSOR}/sinks/file/__init__.py", DOC, "part-shape"),
        ("services/reader/src/tidegate_reader/sources/mysql/__init__.py", DOC, "part-shape"),
    ],
)
def test_a_planted_violation_is_found(tree: Path, path: str, text: str, rule: str) -> None:
    put(tree, path, text)

    code, output = house(tree)

    assert code == 1
    assert {rule} == {line.split(": ")[1] for line in output.splitlines()[:-1]}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (f"{LIBS}/pgoutput/types.py", DOC),
        ("services/reader/src/tidegate_reader/main.py", DOC + "try:\n    f()\nexcept Exception:\n    raise\n"),
        ("tests/kit/wait.py", "import time\ntime.sleep(0.01)\n"),
        ("libs/tests/test_a.py", "async def test_a():\n    await asyncio.sleep(0)\n"),
        (f"{PROCESSOR}/lane.py", DOC + "import pyspark\n"),
        (f"{PROCESSOR}/spark/session.py", DOC + "import pyspark\n"),
        (f"{SINK}/writer.py", DOC + "import httpx\nfrom tidegate_processor.sinks.base import Sink\n"),
        (f"{PROCESSOR}/sinks/registry.py", DOC + "from tidegate_processor.sinks.webhook import config\n"),
        (f"{LIBS}/__init__.py", ""),
    ],
)
def test_what_is_allowed_is_not_found(tree: Path, path: str, text: str) -> None:
    put(tree, path, text)

    assert house(tree) == (0, "house: in order\n")


def test_a_member_without_tests_is_found(tree: Path) -> None:
    (tree / "libs/tests/test_it.py").unlink()
    (tree / "libs/tests").rmdir()

    assert "libs:1: member-shape: has no tests" in house(tree)[1]


def test_all_violations_are_shown_at_once(tree: Path) -> None:
    put(tree, f"{LIBS}/utils.py", "from . import b\n")
    put(tree, "libs/tests/test_a.py", "import time\ntime.sleep(1)\n")

    assert house(tree)[1].splitlines()[-1] == "house: 4 violations of 4 rules"
