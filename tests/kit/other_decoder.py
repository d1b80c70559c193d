"""What test_decoding writes of a change, taken apart: `table s.t: UPDATE: old-key: id[int]:1 new-tuple: n[text]:'x'`.

Invariant: values are PostgreSQL's text again, as pgoutput sends them, so that the two decoders can be compared.
(contrib/test_decoding/test_decoding.c: print_literal.)
"""

import re
from dataclasses import dataclass, field

UNCHANGED = object()
Values = dict[str, object]

_LINE = re.compile(
    r'table (?P<table>(?:"(?:[^"]|"")*"|[^":. ]+)\.(?:"(?:[^"]|"")*"|[^": ]+)): (?P<kind>[A-Z]+):', re.DOTALL
)
_COLUMN = re.compile(r' (?P<name>"(?:[^"]|"")*"|[^"\[ ]+)\[(?P<type>"[^"]*"(?:\[\])?|[^\]]*(?:\[\])?)\]:', re.DOTALL)
# By stretches, not by characters: values have up to megabytes, and what was matched is never tried in another way.
_QUOTED = re.compile(r"(?P<bits>B)?'(?P<text>(?:[^']++|'')*+)'", re.DOTALL)
_BOOLEANS = {"true": "t", "false": "f"}


@dataclass(slots=True)
class OtherChange:
    table: str
    kind: str
    new: Values = field(default_factory=dict)
    old: Values = field(default_factory=dict)


def parse(line: str) -> OtherChange | None:
    """None for what is no row change."""
    head = _LINE.match(line)
    if head is None or head["kind"] == "TRUNCATE":
        return None
    change = OtherChange(_plain(head["table"]), head["kind"])
    at, target = head.end(), change.old if head["kind"] == "DELETE" else change.new
    while at < len(line):
        if line.startswith(" old-key:", at):
            at, target = at + len(" old-key:"), change.old
        elif line.startswith(" new-tuple:", at):
            at, target = at + len(" new-tuple:"), change.new
        elif line.startswith(" (no-tuple-data)", at):
            at += len(" (no-tuple-data)")
        else:
            column = _COLUMN.match(line, at)
            assert column is not None, "a column was expected"
            target[_unquoted(column["name"])], at = _literal(line, column.end(), column["type"])
    return change


def _literal(line: str, at: int, type_: str) -> tuple[object, int]:
    quoted = _QUOTED.match(line, at)
    if quoted is not None:
        return quoted["text"].replace("''", "'"), quoted.end()
    end = line.find(" ", at)
    end = len(line) if end < 0 else end
    token = line[at:end]
    if token == "null":
        return None, end
    if token == "unchanged-toast-datum":
        return UNCHANGED, end
    return _BOOLEANS[token] if type_ == "boolean" else token, end


def _plain(table: str) -> str:
    parts = re.findall(r'"(?:[^"]|"")*"|[^".]+', table)
    return ".".join(_unquoted(part) for part in parts)


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
