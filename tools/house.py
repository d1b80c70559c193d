"""The rules of the house that a program can keep: sizes, names, docstrings, folder shapes, who may import what.

    python tools/house.py [--root FOLDER]

Invariant: every violation is shown in one run, with its place and the rule it breaks; exit 1 if there is one.
What crosses packages (services never import each other, sans-IO modules) is in .importlinter.
"""

import argparse
import ast
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 60

MEMBERS = ("libs", "services/reader", "services/spark-processor", "services/admin-api")
CODE_FOLDERS = (*(f"{member}/{part}" for member in MEMBERS for part in ("src", "tests")), "tests", "tools", "bench")

# pgoutput/types.py is PostgreSQL's own word for what it holds.
VAGUE_NAMES = frozenset({"utils", "util", "common", "helpers", "helper", "types", "misc"})
ALLOWED_VAGUE = frozenset({"pgoutput/types.py"})

PROCESSOR = "services/spark-processor/src/tidegate_processor/"
SPARK_FILES = frozenset({f"{PROCESSOR}pipeline.py", f"{PROCESSOR}lane.py"})

# Kinds of one-folder-each parts: they use what they share and never each other.
PARTS = {
    f"{PROCESSOR}sinks": frozenset({"base", "shared"}),
    f"{PROCESSOR}transforms": frozenset({"base", "shared"}),
    "services/reader/src/tidegate_reader/sources": frozenset({"base", "shared"}),
}
SINK_FILES = ("__init__.py", "config.py", "encode.py", "writer.py", "README.md")
SINK_HEADINGS = ("What it does", "Guarantee", "Options", "Failures and what to do", "Limits")
SOURCE_FILES = ("__init__.py", "conversation.py", "stream.py")
CLIENTS = frozenset(
    {"aiokafka", "boto3", "confluent_kafka", "deltalake", "httpx", "nats", "psycopg", "pyiceberg", "redis", "requests"}
)


@dataclass(frozen=True, slots=True, order=True)
class Violation:
    path: str
    line: int
    rule: str
    text: str


@dataclass(frozen=True, slots=True)
class Module:
    path: str
    lines: int
    tree: ast.Module

    @property
    def is_test(self) -> bool:
        return "/tests/" in f"/{self.path}"

    @property
    def names(self) -> tuple[str, ...]:
        return (*Path(self.path).parts[:-1], Path(self.path).stem)


Found = Iterator[tuple[int, str]]
Rule = Callable[[Module], Found]


def check(root: Path) -> list[Violation]:
    violations = [*_members(root), *_part_shapes(root)]
    for module in _modules(root):
        for rule in RULES:
            name = rule.__name__.strip("_").replace("_", "-")
            violations += [Violation(module.path, line, name, text) for line, text in rule(module)]
    return sorted(violations)


def main() -> int:
    parser = argparse.ArgumentParser(description="Check the rules of the house.")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    violations = check(parser.parse_args().root)
    for violation in violations:
        print(f"{violation.path}:{violation.line}: {violation.rule}: {violation.text}")
    rules = {violation.rule for violation in violations}
    print(f"house: {len(violations)} violations of {len(rules)} rules" if violations else "house: in order")
    return 1 if violations else 0


def _modules(root: Path) -> Iterator[Module]:
    for folder in CODE_FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            yield Module(path.relative_to(root).as_posix(), text.count("\n"), ast.parse(text, str(path)))


def _file_length(module: Module) -> Found:
    if module.lines > MAX_FILE_LINES:
        yield 1, f"{module.lines} lines, {MAX_FILE_LINES} allowed: look for the missing name"


def _function_length(module: Module) -> Found:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                yield node.lineno, f"{node.name} has {lines} lines, {MAX_FUNCTION_LINES} allowed"


def _module_docstring(module: Module) -> Found:
    if module.tree.body and not module.is_test and ast.get_docstring(module.tree) is None:
        yield 1, "a module says its purpose and its invariant"


def _vague_name(module: Module) -> Found:
    vague = VAGUE_NAMES.intersection(module.names)
    if vague and not module.path.endswith(tuple(ALLOWED_VAGUE)):
        yield 1, f"{', '.join(sorted(vague))} says nothing: name it after what it holds"


def _relative_import(module: Module) -> Found:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield node.lineno, "imports are absolute"


def _broad_except(module: Module) -> Found:
    if Path(module.path).name == "main.py":
        return
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ExceptHandler) and (node.type is None or _names_in(node.type) & {"Exception"}):
            yield node.lineno, "name the failures; only main.py catches everything"
        elif isinstance(node, ast.Call) and _suppresses_everything(node):
            yield node.lineno, "name the failures that are suppressed"


def _sleep_in_test(module: Module) -> Found:
    # The one place that may sleep is what waiting for a condition is built of.
    if not module.is_test or module.path.startswith("tests/kit/"):
        return
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and _dotted(node.func) in ("time.sleep", "sleep", "asyncio.sleep"):
            yields_only = bool(node.args) and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0
            if not yields_only:
                yield node.lineno, "wait for a condition with a deadline (kit.wait)"


def _mock(module: Module) -> Found:
    for line, name in _imports(module):
        if name.startswith(("unittest.mock", "mock", "pytest_mock")):
            yield line, "use the real thing, or a small class of our own"


def _pyspark(module: Module) -> Found:
    is_writer = module.path.startswith(f"{PROCESSOR}sinks/") and module.path.endswith("/writer.py")
    if module.is_test or is_writer or module.path in SPARK_FILES or module.path.startswith(f"{PROCESSOR}spark/"):
        return
    for line, name in _imports(module):
        if _is_in(name, "pyspark"):
            yield (
                line,
                "pyspark only in pipeline.py, lane.py, spark/ and sink writers, so that all else runs without a JVM",
            )


def _parts_import_each_other(module: Module) -> Found:
    for folder, shared in PARTS.items():
        inside = module.path.removeprefix(f"{folder}/")
        own = inside.split("/")[0].removesuffix(".py")
        if module.is_test or inside == module.path or own in {"registry", "__init__"}:
            continue
        package = folder.partition("/src/")[2].replace("/", ".")
        for line, name in _imports(module):
            other = name.removeprefix(f"{package}.").split(".")[0]
            if name.startswith(f"{package}.") and other != own and other not in shared:
                yield line, f"{own} imports {other}: they are independent of each other"


def _client_outside_writer(module: Module) -> Found:
    inside = module.path.removeprefix(f"{PROCESSOR}sinks/")
    is_part = inside != module.path and inside.count("/") == 1 and not inside.startswith("shared/")
    if not is_part or inside.endswith("/writer.py"):
        return
    for line, name in _imports(module):
        if name.split(".")[0] in CLIENTS:
            yield line, "only writer.py imports a client"


RULES: tuple[Rule, ...] = (
    _file_length,
    _function_length,
    _module_docstring,
    _vague_name,
    _relative_import,
    _broad_except,
    _sleep_in_test,
    _mock,
    _pyspark,
    _parts_import_each_other,
    _client_outside_writer,
)


def _members(root: Path) -> Iterator[Violation]:
    for member in MEMBERS:
        for needed in ("pyproject.toml", "README.md", "tests"):
            if not (root / member / needed).exists():
                yield Violation(member, 1, "member-shape", f"has no {needed}")


def _part_shapes(root: Path) -> Iterator[Violation]:
    for folder, needed in ((f"{PROCESSOR}sinks", SINK_FILES), (list(PARTS)[2], SOURCE_FILES)):
        for part in sorted((root / folder).glob("[!_.]*/")):
            if not part.is_dir() or part.name in ("shared", "tests"):
                continue
            path = part.relative_to(root).as_posix()
            for name in needed:
                if not (part / name).is_file():
                    yield Violation(path, 1, "part-shape", f"has no {name}")
            if needed is SINK_FILES:
                yield from _sink_documents(part, path)


def _sink_documents(part: Path, path: str) -> Iterator[Violation]:
    if not any((part / "tests").glob("test_*.py")):
        yield Violation(path, 1, "part-shape", "has no tests/test_*.py")
    readme = part / "README.md"
    lines = readme.read_text(encoding="utf-8").splitlines() if readme.is_file() else []
    headings = {line.lstrip("# ").strip() for line in lines if line.startswith("#")}
    for heading in SINK_HEADINGS:
        if lines and heading not in headings:
            yield Violation(f"{path}/README.md", 1, "part-shape", f"has no heading “{heading}”")


def _imports(module: Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def _is_in(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def _names_in(node: ast.expr) -> set[str]:
    return {_dotted(inner).split(".")[-1] for inner in (node.elts if isinstance(node, ast.Tuple) else [node])}


def _suppresses_everything(call: ast.Call) -> bool:
    names = {name for argument in call.args for name in _names_in(argument)}
    return _dotted(call.func).endswith("suppress") and bool(names & {"Exception", "BaseException"})


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


if __name__ == "__main__":
    sys.exit(main())
