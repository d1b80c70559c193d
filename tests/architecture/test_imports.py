"""The import contracts refuse what is planted against them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("libs/src", "services/reader/src", "services/spark-processor/src", "services/admin-api/src")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    shutil.copy(ROOT / ".importlinter", tmp_path)
    for source in SOURCES:
        shutil.copytree(ROOT / source, tmp_path / source, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def lint(tree: Path) -> tuple[int, str]:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--config", ".importlinter", "--no-cache"]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(str(tree / source) for source in SOURCES)}
    done = subprocess.run(command, cwd=tree, env=environ, capture_output=True, text=True, timeout=100, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_tree_as_it_is_keeps_every_contract(tree: Path) -> None:
    code, output = lint(tree)

    assert code == 0, output
    assert "0 broken" in output


READER = "services/reader/src/tidegate_reader"
PROCESSOR = "services/spark-processor/src/tidegate_processor"


@pytest.mark.parametrize(
    ("planted", "line", "contract"),
    [
        (READER, "import tidegate_processor", "Services never import each other"),
        (
            "services/spark-processor/src/tidegate_processor",
            "import tidegate_admin",
            "Services never import each other",
        ),
        ("libs/src/tidegate/config", "import tidegate_reader", "The library knows no service"),
        ("libs/src/tidegate/pgoutput", "import socket", "Codec, contracts and positions do no IO"),
        ("libs/src/tidegate/checkpoint", "import psycopg", "The library without extras"),
        (READER, "import pyarrow", "Each service carries only what its work needs"),
    ],
)
def test_a_planted_import_is_refused(tree: Path, planted: str, line: str, contract: str) -> None:
    (tree / planted / "planted.py").write_text(f'"""Planted."""\n\n{line}\n')

    code, output = lint(tree)

    assert code == 1
    assert any(shown.startswith(contract) and " BROKEN" in shown for shown in output.splitlines()), output
