"""Table patterns: `schema.table` with `*` for any run of characters, and double quotes around unusual names.

Invariant: matching takes time linear in the name for each `*`; there are no regular expressions in a configuration.
The validator is imported only where it asks: a process that is handed a checked configuration does without it.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

# PostgreSQL cuts a name at 63 bytes (NAMEDATALEN - 1).
MAX_NAME_BYTES = 63

_PART = r'(?:"((?:[^"\x00]|"")+)"|([^\s"\x00.,]+))'
_PATTERN = re.compile(rf"{_PART}\.{_PART}")


@dataclass(frozen=True, slots=True)
class Name:
    """One half of a pattern; in a quoted name `*` is an ordinary character."""

    text: str
    literal: bool

    def matches(self, name: str) -> bool:
        return name == self.text if self.literal or "*" not in self.text else _matches(name, self.text.split("*"))

    def __str__(self) -> str:
        return '"' + self.text.replace('"', '""') + '"' if self.literal else self.text


@dataclass(frozen=True, slots=True)
class TablePattern:
    schema: Name
    table: Name

    def matches(self, schema: str, table: str) -> bool:
        return self.schema.matches(schema) and self.table.matches(table)

    @property
    def is_exact(self) -> bool:
        return not any("*" in name.text and not name.literal for name in (self.schema, self.table))

    @property
    def is_whole_schema(self) -> bool:
        return self.table == Name("*", literal=False) and (self.schema.literal or "*" not in self.schema.text)

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"

    @classmethod
    def parse(cls, value: object) -> "TablePattern":
        from tidegate.config.problems import refuse

        if isinstance(value, TablePattern):
            return value
        match = _PATTERN.fullmatch(value) if isinstance(value, str) and len(value) <= 512 else None
        if match is None:
            raise refuse(
                code="CONFIG_TABLE",
                reason="a table is written schema.table",
                remedy='Write public.orders, public.* or "Odd Schema"."odd.table".',
            )
        return cls(_name(match[1], match[2]), _name(match[3], match[4]))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            cls.parse, serialization=core_schema.plain_serializer_function_ser_schema(str)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: "CoreSchema", handler: "GetJsonSchemaHandler") -> "JsonSchemaValue":
        return {"type": "string", "examples": ["public.orders", "public.*"]}


def _name(quoted: str | None, plain: str | None) -> Name:
    text = (plain or "") if quoted is None else quoted.replace('""', '"')
    if len(text.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        from tidegate.config.problems import refuse

        raise refuse(
            code="CONFIG_NAME_TOO_LONG",
            reason="a PostgreSQL name has at most 63 bytes",
            remedy="Write the name as the catalogue shows it.",
        )
    return Name(text, literal=quoted is not None)


def _matches(name: str, pieces: list[str]) -> bool:
    """Each piece at its leftmost place: no backtracking is needed when `*` is the only wildcard."""
    first, *middle, last = pieces
    if len(name) < len(first) + len(last) or not name.startswith(first) or not name.endswith(last):
        return False
    at, end = len(first), len(name) - len(last)
    for piece in middle:
        found = name.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True
