"""A configuration that another process has checked: the validator costs 11 MB, and a service needs it once.

Checking ─▶ child (`checking.py`): load_pipeline ─plain values─▶ pipe ─▶ sections with the models' attributes

Invariant: the same code checks, so the same file is refused with the same problems; and no secret goes through the
pipe, because a configuration holds none.
"""

import pickle
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from tidegate.errors import TidegateError, TransientError

if TYPE_CHECKING:
    from tidegate.config.pipeline import PipelineConfig

CHECK_SECONDS = 60.0
"""It takes half a second; a secret's file may lie on a slow disk."""


class Section:
    """The fields and properties of one model, without the model; its methods stay behind."""

    def __init__(self, values: Mapping[str, object]) -> None:
        vars(self).update(values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name}: a checked configuration does not change")

    def __reduce__(self) -> tuple[type["Section"], tuple[dict[str, object]]]:
        return Section, (vars(self),)


class Checking:
    """A file that is being checked; whoever asked for it can go on meanwhile."""

    def __init__(
        self, service: str, path: str | Path, overrides: Sequence[str] = (), *, secrets: Collection[str]
    ) -> None:
        checking = [sys.executable, "-P", "-m", "tidegate.config.checking", service, ",".join(secrets), str(path)]
        self._child = subprocess.Popen([*checking, *overrides], stdout=subprocess.PIPE)  # noqa: S603 our own program

    def outcome(self) -> "PipelineConfig":
        """As of `load_pipeline`. What comes back is read like a `PipelineConfig`, by attributes alone."""
        with self._child as child:
            try:
                said, _ = child.communicate(timeout=CHECK_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                raise _unchecked("no end in time") from None
        if child.returncode:
            raise _unchecked(f"exit code {child.returncode}")
        outcome = pickle.loads(said)  # noqa: S301 written by our own program
        if isinstance(outcome, TidegateError):
            raise outcome
        return cast("PipelineConfig", outcome)


def _unchecked(reason: str) -> TransientError:
    return TransientError(
        f"the process that checks the configuration failed: {reason}",
        code="CONFIG_UNCHECKED",
        remedy="It is started again. If it repeats, see what `tidegate validate` says, and look at memory limits.",
    )
