"""One finding of the preflight: what is not as it should be, why it matters, and what mends it.

| severity | the reader | `tidegate doctor` |
| --- | --- | --- |
| refusal | does not start (exit 2) | exit 2 |
| unknown | starts again (exit 1): it could not be asked | exit 1 |
| caution | logs it and goes on | exit 0 |
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tidegate.errors import ConfigError, Problem, TransientError


class Severity(StrEnum):
    REFUSAL = "refusal"
    UNKNOWN = "unknown"
    CAUTION = "caution"


@dataclass(frozen=True, slots=True)
class Finding:
    severity: Severity
    path: str
    """Where in the configuration the part stands that it is about."""
    code: str
    cause: str
    remedy: str


def refusal(path: str, *, code: str, reason: str, remedy: str) -> Finding:
    return Finding(Severity.REFUSAL, path, code, reason, remedy)


def caution(path: str, *, code: str, reason: str, remedy: str) -> Finding:
    return Finding(Severity.CAUTION, path, code, reason, remedy)


def unknown(path: str, *, code: str, reason: str, remedy: str) -> Finding:
    return Finding(Severity.UNKNOWN, path, code, reason, remedy)


def raise_worst(findings: Sequence[Finding]) -> None:
    """All refusals in one error; else what could not be asked; cautions raise nothing."""
    refused = [each for each in findings if each.severity is Severity.REFUSAL]
    if refused:
        raise ConfigError(
            f"{len(refused)} finding(s) before the start",
            code="PREFLIGHT",
            remedy="Mend each of them; nothing has been created or changed. `tidegate doctor` shows them again.",
            problems=tuple(Problem(each.path, each.code, each.cause, each.remedy) for each in refused),
        )
    for each in findings:
        if each.severity is Severity.UNKNOWN:
            raise TransientError(each.cause, code=each.code, remedy=each.remedy)
