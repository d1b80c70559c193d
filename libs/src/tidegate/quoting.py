"""The one place where a name from outside becomes part of a command to PostgreSQL."""

from tidegate.errors import ConfigError


def identifier(name: str) -> str:
    return '"' + _without_nul(name).replace('"', '""') + '"'


def qualified(schema: str, table: str) -> str:
    return f"{identifier(schema)}.{identifier(table)}"


def literal(text: str) -> str:
    """For replication commands, whose grammar knows neither parameters nor escapes: a quote is doubled, no more."""
    return "'" + _without_nul(text).replace("'", "''") + "'"


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ConfigError("a name holds a NUL", code="NAME_NUL", remedy="Write the name as the catalogue shows it.")
    return text
