"""The base of every configuration model, and the value types that have a unit.

Invariant: a value is taken as written or refused. Text is never read as a number, `yes` never as true, and a number
without a unit never as a size or a duration.
"""

import re
from datetime import timedelta
from typing import Annotated, Any, TypeVar
from urllib.parse import SplitResult, urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    field_validator,
)

from tidegate.config.problems import refuse
from tidegate.config.values import Address as Address

T = TypeVar("T")

Many = Annotated[tuple[T, ...], Field(strict=False)]
"""A list in the file, a tuple here: strict models would refuse the one for the other."""

_DURATION_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZE_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
DURATION_PATTERN = r"^[0-9]{1,9}(ms|s|m|h|d)$"
SIZE_PATTERN = r"^[0-9]{1,12}(B|KiB|MiB|GiB|TiB)$"
_DURATION = re.compile(r"([0-9]{1,9})(ms|s|m|h|d)", re.ASCII)
_SIZE = re.compile(r"([0-9]{1,12})(B|KiB|MiB|GiB|TiB)", re.ASCII)
_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9._-]{1,253})):([0-9]{1,5})", re.ASCII)
_REFERENCE = re.compile(r"\$\{(env|file):", re.ASCII)


class Model(BaseModel):
    """Frozen, strict, closed: an unknown key is a mistake."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        validate_default=True,
        hide_input_in_errors=True,
        ser_json_bytes="utf8",
    )

    @field_validator("*", mode="after")
    @classmethod
    def _no_reference_outside_secrets(cls, value: Any) -> Any:  # any field's type
        if isinstance(value, str) and _REFERENCE.search(value):
            raise refuse(
                code="CONFIG_REFERENCE_MISPLACED",
                reason="only secrets may refer to the environment or a file",
                remedy="Set this field by its environment variable, TIDEGATE_<SECTION>__<KEY>.",
            )
        return value


def parse_duration(value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise refuse(
            code="CONFIG_DURATION",
            reason="a duration is a whole number and a unit",
            remedy="Write 500ms, 30s, 5m, 12h or 7d.",
        )
    return timedelta(milliseconds=int(match[1]) * _DURATION_UNITS[match[2]])


def format_duration(value: timedelta) -> str:
    milliseconds = value // timedelta(milliseconds=1)
    unit = next(u for u in ("d", "h", "m", "s", "ms") if milliseconds % _DURATION_UNITS[u] == 0)
    return f"{milliseconds // _DURATION_UNITS[unit]}{unit}" if milliseconds else "0s"


def parse_size(value: object) -> int:
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise refuse(
            code="CONFIG_SIZE",
            reason="a size is a whole number and a unit",
            remedy="Write 512B, 256KiB, 16MiB or 1GiB.",
        )
    return int(match[1]) * _SIZE_UNITS[match[2]]


def format_size(value: int) -> str:
    unit = next(u for u in ("TiB", "GiB", "MiB", "KiB", "B") if value % _SIZE_UNITS[u] == 0)
    return f"{value // _SIZE_UNITS[unit]}{unit}" if value else "0B"


def parse_address(value: object) -> Address:
    if isinstance(value, Address):
        return value
    match = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if match is None or int(match[3]) > 65_535:
        raise refuse(
            code="CONFIG_ADDRESS",
            reason="an address is a host, a colon and a port",
            remedy="Write 127.0.0.1:8080, db.internal:5432 or [::1]:8080.",
        )
    return Address(match[1] or match[2], int(match[3]))


def url_parts(value: str) -> tuple[SplitResult, int | None]:
    """With the port; of what is no URL at all, those of an empty one."""
    try:
        parts = urlsplit(value)
        return parts, parts.port
    except ValueError:
        return urlsplit(""), None


def _size_or_bytes(value: object) -> int:
    return parse_size(value) if not isinstance(value, Bytes) else value


class Bytes(int):
    """A default written in code: there the unit is the type."""


def size(text: str) -> int:
    """A size as a default of a field, in the words of the file."""
    return Bytes(parse_size(text))


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": DURATION_PATTERN, "examples": ["30s"]}),
]
Size = Annotated[
    int,
    BeforeValidator(_size_or_bytes),
    PlainSerializer(format_size, return_type=str),
    WithJsonSchema({"type": "string", "pattern": SIZE_PATTERN, "examples": ["256KiB"]}),
]
HttpAddress = Annotated[
    Address,
    PlainValidator(parse_address),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["127.0.0.1:8080"]}),
]
