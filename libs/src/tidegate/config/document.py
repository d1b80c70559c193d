"""YAML to plain values: dict, list, str, int, float, bool and None, nothing else.

Invariant: what YAML 1.1 guesses (yes, on, 08:00, 010, 1_000) stays text, so that a field of another type refuses it;
tags, duplicate keys and anything out of proportion are refused here.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

from tidegate.config.problems import Path, format_path
from tidegate.errors import ConfigError, Problem

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 32
# Far above any real file, far below what an alias bomb unfolds to. Keys count where the file is only looked through.
MAX_VALUES = 50_000

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WORDS: dict[str, bool | None] = {"": None, "~": None, "null": None, "true": True, "false": False}
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})", re.ASCII)
_FRACTION = re.compile(r"-?(0|[1-9][0-9]{0,17})\.[0-9]{1,18}", re.ASCII)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


def parse_bytes(data: bytes) -> object:
    if len(data) > MAX_BYTES:
        raise _invalid(
            Problem(
                "(file)", code="CONFIG_TOO_LARGE", reason="larger than 1 MiB", remedy="One file holds one pipeline."
            )
        )
    try:
        return parse_text(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise _invalid(
            Problem(
                "(file)",
                code="CONFIG_ENCODING",
                reason=f"not UTF-8 at byte {error.start}",
                remedy="Save the file as UTF-8.",
            )
        ) from error


def parse_text(text: str) -> object:
    try:
        problems = list(_event_problems(text))
        if problems:
            raise _invalid(*problems)
        node = yaml.compose(text, Loader=_LOADER)
    except (yaml.YAMLError, ValueError) as error:
        raise _invalid(_syntax_problem(error)) from error
    builder = _Builder()
    value = None if node is None else builder.build(node, ())
    if builder.problems:
        raise _invalid(*builder.problems)
    return value


def parse_scalar(text: str) -> object:
    """A plain (unquoted) scalar by the rules of YAML 1.2's core schema, minus octal, hexadecimal and exponents."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FRACTION.fullmatch(text) else text


@dataclass(slots=True)
class _Builder:
    """Builds fresh values, so an alias costs what it stands for and the count bounds it."""

    problems: list[Problem] = field(default_factory=list)
    count: int = 0

    def build(self, node: yaml.Node, path: Path) -> object:
        self.count += 1
        if self.count > MAX_VALUES or len(path) > MAX_DEPTH:
            raise _invalid(
                Problem(
                    format_path(path[:3]),
                    code="CONFIG_ALIAS_BOMB",
                    reason="anchors and aliases unfold to too much",
                    remedy="Write the values out.",
                )
            )
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(child, (*path, index)) for index, child in enumerate(node.value)]
        text = str(node.value)
        return text if getattr(node, "style", None) else parse_scalar(text)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, object]:
        mapping: dict[str, object] = {}
        for key_node, value_node in node.value:
            key = key_node.value
            if not isinstance(key, str):
                self._key_problem(key_node, path)
                continue
            if key in mapping:
                self._duplicate(key_node, (*path, key))
            mapping[key] = self.build(value_node, (*path, key))
        return mapping

    def _duplicate(self, node: yaml.Node, path: Path) -> None:
        self.problems.append(
            Problem(
                format_path(path),
                code="CONFIG_DUPLICATE_KEY",
                reason=f"given twice, again in line {_line(node)}",
                remedy="Keep one of them.",
            )
        )

    def _key_problem(self, node: yaml.Node, path: Path) -> None:
        self.problems.append(
            Problem(
                format_path(path),
                code="CONFIG_KEY",
                reason=f"a key that is not text in line {_line(node)}",
                remedy="Keys are plain names.",
            )
        )


def _event_problems(text: str) -> Iterator[Problem]:
    """Before composing, which recurses in C: size, depth and tags. What is too large is not read to its end."""
    depth = count = 0
    for event in yaml.parse(text, Loader=_LOADER):
        count += isinstance(event, yaml.NodeEvent)
        if count > MAX_VALUES:
            yield Problem(
                f"line {_line(event)}",
                code="CONFIG_TOO_LARGE",
                reason=f"more than {MAX_VALUES} keys and values",
                remedy="One file holds one pipeline.",
            )
            return
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            yield Problem(
                f"line {_line(event)}",
                code="CONFIG_TOO_DEEP",
                reason=f"nested deeper than {MAX_DEPTH} levels",
                remedy="Write the values flatter.",
            )
            return
        if getattr(event, "tag", None) is not None:
            yield Problem(
                f"line {_line(event)}",
                code="CONFIG_TAG",
                reason="tags (a word after !) are not allowed",
                remedy="Remove the tag, or put a value that begins with ! in quotes.",
            )


def _line(at: yaml.Node | yaml.Event) -> int:
    return at.start_mark.line + 1 if at.start_mark else 0


def _syntax_problem(error: Exception) -> Problem:
    """A parser's own message may quote the file, so what stands in quotes is left out."""
    mark = getattr(error, "problem_mark", None)
    reason = _QUOTED.sub("…", str(getattr(error, "problem", None) or "characters that YAML does not allow"))
    return Problem(
        f"line {mark.line + 1}, column {mark.column + 1}" if mark else "(file)",
        code="CONFIG_SYNTAX",
        reason=f"not valid YAML: {reason}",
        remedy="Mend the syntax; a value with special characters needs quotes.",
    )


def _invalid(*problems: Problem) -> ConfigError:
    return ConfigError("the configuration is refused", problems=problems)
