"""Every failure is one of four kinds, and each kind says what the caller has to do.

| kind | meaning | what follows | exit | HTTP |
| --- | --- | --- | --- | --- |
| ConfigError | refused before the start, all problems at once | a person mends the configuration | 2 | 422 |
| TransientError | the outside may heal | bounded retry, then the supervisor restarts | 1 | 503 |
| RecordError | this record never | dead letter, the stream goes on | - | - |
| StreamError | going on would lose or corrupt | stop, alert, a person decides | 3 | 409 |

Errors carry a stable `code` and a `remedy`, pickle (a stage raises in another process), and never hold a row value.
"""

from dataclasses import dataclass
from enum import IntEnum


class ExitCode(IntEnum):
    CLEAN = 0
    RETRY = 1
    CONFIGURATION = 2
    LOST = 3


class TidegateError(Exception):
    """Base of all our errors. The message is positional, everything else an attribute."""

    exit_code = ExitCode.LOST
    http_status = 500

    def __init__(self, message: str, *, code: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.remedy = remedy

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.args, self.__dict__))

    def __str__(self) -> str:
        return f"{self.message} [{self.code}]"


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a configuration, in the words of the person who has to mend it."""

    path: str
    code: str
    reason: str
    remedy: str = ""

    def __str__(self) -> str:
        text = f"{self.path}: {self.reason} [{self.code}]"
        return f"{text} ({self.remedy})" if self.remedy else text


class ConfigError(TidegateError):
    exit_code = ExitCode.CONFIGURATION
    http_status = 422

    def __init__(
        self, message: str, *, code: str = "CONFIG_INVALID", remedy: str = "", problems: tuple[Problem, ...] = ()
    ) -> None:
        super().__init__(message, code=code, remedy=remedy)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *(f"  {problem}" for problem in self.problems)])


class TransientError(TidegateError):
    exit_code = ExitCode.RETRY
    http_status = 503


class RecordError(TidegateError):
    """One record can never be delivered; it becomes a dead letter and the stream goes on."""


class StreamError(TidegateError):
    exit_code = ExitCode.LOST
    http_status = 409


class DecodeError(StreamError):
    """Bytes that do not follow their specification. `offset` is where in the input, never what stood there."""

    def __init__(self, message: str, *, offset: int = 0, code: str = "DECODE_FAILED", remedy: str = "") -> None:
        super().__init__(f"{message} (at byte {offset})", code=code, remedy=remedy or _DECODE_REMEDY)
        self.offset = offset


_DECODE_REMEDY = "Keep the bytes and report this: somebody wrote what no reader of this version understands."


def _rebuild(cls: type[TidegateError], args: tuple[object, ...], state: dict[str, object]) -> TidegateError:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


def classify(error: BaseException) -> TidegateError:
    """An unclassified foreign failure is a StreamError: going on blindly is the one thing never allowed."""
    if isinstance(error, TidegateError):
        return error
    return StreamError(
        f"unclassified {type(error).__name__}", code="UNCLASSIFIED", remedy="Report this with the log lines before it."
    )
