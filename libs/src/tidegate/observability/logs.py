"""Structured logs on stderr: an event name and fields, one JSON object a line, or one short line on a terminal.

WARNING means nothing is lost; ERROR means somebody must act. Fields are names, counts, positions and codes: row values
and secrets have no place here.
Invariant: one event is one line, whatever its fields hold; no field can forge another line or steer a terminal.
"""

import json
import logging
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from tidegate.errors import ConfigError, TidegateError

_ROOT = "tidegate"
MAX_FIELD_CHARACTERS = 2_000
_FRAMES_SHOWN = 8

_COLOURS = {logging.DEBUG: "2", logging.INFO: "32", logging.WARNING: "33", logging.ERROR: "31"}


class Log:
    """Emits events of one component. A field's name never collides with logging's own, they travel apart."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def debug(self, event: str, /, **fields: object) -> None:
        self._emit(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        self._emit(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        self._emit(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        self._emit(logging.ERROR, event, fields)

    def failure(self, event: str, error: BaseException, /, **fields: object) -> None:
        """An error that ends something: kind, code and remedy of ours; only the type of a foreign one, which may quote
        rows or credentials in its message."""
        self._emit(logging.ERROR, event, {**_described(error), **fields})

    def _emit(self, level: int, event: str, fields: Mapping[str, object]) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, extra={"tidegate_fields": fields})


def get(component: str) -> Log:
    return Log(logging.getLogger(f"{_ROOT}.{component}"))


def configure(
    service: str, pipeline: str = "", *, level: str = "info", style: str = "auto", stream: TextIO | None = None
) -> None:
    """Called once by main. `style` is auto, json or text."""
    stream = stream or sys.stderr
    as_text = style == "text" or (style == "auto" and stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Text(colour=stream.isatty()) if as_text else _Json(service, pipeline))
    root = logging.getLogger()
    root.handlers = [handler]
    # Libraries speak only when something is wrong; their debug lines may quote requests.
    root.setLevel(logging.WARNING)
    # Its warnings hold what a server said, which may quote a row; what they are about is raised as well.
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)
    logging.getLogger(_ROOT).setLevel(level.upper())


class _Json(logging.Formatter):
    def __init__(self, service: str, pipeline: str) -> None:
        super().__init__()
        self._head = {"service": service, "pipeline": pipeline}

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            **self._head,
            "event": _event(record),
            "component": record.name.removeprefix(f"{_ROOT}."),
        }
        # A field may not take the place of what the line says about itself.
        line.update((name, value) for name, value in _fields(record).items() if name not in line)
        return json.dumps(line, default=_text, ensure_ascii=True, allow_nan=False)


class _Text(logging.Formatter):
    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        level = f"{record.levelname.lower():7}"
        if self._colour:
            level = f"\x1b[{_COLOURS.get(record.levelno, '0')}m{level}\x1b[0m"
        fields = " ".join(f"{name}={_inline(value)}" for name, value in _fields(record).items())
        component = record.name.removeprefix(f"{_ROOT}.")
        return f"{_time(record)[11:23]} {level} {component}: {_inline(_event(record))} {fields}".rstrip()


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _event(record: logging.LogRecord) -> str:
    """A foreign library's message is cut to one bounded line by the same escape as any field."""
    return record.getMessage()[:MAX_FIELD_CHARACTERS]


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields = {name: _plain(value) for name, value in getattr(record, "tidegate_fields", {}).items()}
    if record.exc_info and record.exc_info[0] is not None:
        fields["exception"] = record.exc_info[0].__name__
    return fields


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value[:100]]
    return _text(value)


def _text(value: object) -> str:
    text = str(value)
    return text if len(text) <= MAX_FIELD_CHARACTERS else text[:MAX_FIELD_CHARACTERS] + "…"


def _inline(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=_text)
    return text if text.isascii() and text.isprintable() and " " not in text else json.dumps(text)


def _where(error: BaseException) -> list[str]:
    """Files and lines, innermost first: enough to find the fault, and never a value."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES_SHOWN:]
    return [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(frames)]


def _described(error: BaseException) -> dict[str, object]:
    if not isinstance(error, TidegateError):
        return {"error": type(error).__name__, "code": "UNCLASSIFIED", "where": _where(error)}
    described: dict[str, object] = {
        "error": type(error).__name__,
        "code": error.code,
        "message": error.message,
        "remedy": error.remedy,
    }
    if isinstance(error, ConfigError) and error.problems:
        described["problems"] = [str(problem) for problem in error.problems]
    return described
