"""Secrets: the configuration holds where a secret is, and only `reveal` reads it.

Invariant: no secret is ever a value of a configuration object, so none can be printed, pickled, hashed or captured.
The validator is imported only where it asks: a process that is handed a checked configuration does without it.
"""

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

MAX_SECRET_BYTES = 64 * 1024
REFERENCE_PATTERN = r"^\$\{(env:[A-Za-z_][A-Za-z0-9_]*|file:/[^}]+)\}$"
_REFERENCE = re.compile(r"\$\{(?:env:([A-Za-z_][A-Za-z0-9_]{0,255})|file:(/[^}\x00]{1,4095}))\}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Secret:
    """`${env:NAME}` or `${file:/path}`."""

    source: str
    where: str

    def __repr__(self) -> str:
        return f"Secret({self.reference})"

    __str__ = __repr__

    @property
    def reference(self) -> str:
        return f"${{{self.source}:{self.where}}}"

    def reveal(self, environ: Mapping[str, str] = os.environ) -> str:
        """Read anew at each call, so a password that is rotated in its file is seen at the next connection."""
        value = _from_environment(self.where, environ) if self.source == "env" else _from_file(Path(self.where))
        if not value or "\x00" in value:
            raise ConfigError(
                f"the secret {self.reference} is empty or holds a NUL",
                code="SECRET_EMPTY",
                remedy="Give the variable or the file its value.",
            )
        return value

    @property
    def is_readable_by_others(self) -> bool:
        """An orchestrator mounts secrets like that in a closed container; on a shared machine it is a leak."""
        return self.source == "file" and bool(Path(self.where).stat().st_mode & stat.S_IROTH)

    @classmethod
    def parse(cls, value: object) -> "Secret":
        from tidegate.config.problems import refuse

        if isinstance(value, Secret):
            return value
        secret = cls.from_text(value)
        if secret is None:
            raise refuse(
                code="SECRET_PLAIN",
                reason="a secret is never written into the file",
                remedy="Write ${env:NAME} or ${file:/absolute/path}.",
            )
        return secret

    @classmethod
    def from_text(cls, value: object) -> "Secret | None":
        match = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            return None
        return cls("env", match[1]) if match[1] else cls("file", match[2])

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            cls.parse, serialization=core_schema.plain_serializer_function_ser_schema(lambda secret: secret.reference)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: "CoreSchema", handler: "GetJsonSchemaHandler") -> "JsonSchemaValue":
        return {"type": "string", "pattern": REFERENCE_PATTERN, "examples": ["${env:PGPASSWORD}"]}


def _from_environment(name: str, environ: Mapping[str, str]) -> str:
    try:
        return environ[name]
    except KeyError as error:
        raise ConfigError(
            f"the environment variable {name} is not set",
            code="SECRET_UNSET",
            remedy="Set it, or refer to a file with ${file:/absolute/path}.",
        ) from error


def _from_file(path: Path) -> str:
    """One line end at the end is the editor's; every other character may be part of the secret."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SECRET_BYTES + 1)
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the secret file {path} cannot be read ({type(error).__name__})",
            code="SECRET_UNREADABLE",
            remedy="Check that it exists, is UTF-8 text and may be read by the service's user.",
        ) from error
    if len(data) > MAX_SECRET_BYTES:
        raise ConfigError(
            f"the secret file {path} is larger than 64 KiB",
            code="SECRET_TOO_LARGE",
            remedy="Point to the file that holds the secret alone.",
        )
    return text.removesuffix("\n").removesuffix("\r")
