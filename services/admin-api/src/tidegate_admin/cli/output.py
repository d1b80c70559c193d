"""How commands speak: one console for data, one for everything else. NO_COLOR and pipes make both plain."""

import json as jsonlib
import sys

from rich.console import Console
from rich.text import Text

from tidegate.errors import ConfigError, TidegateError

PLAIN_WIDTH = 200
"""Where there is no terminal to ask: wide enough that no table is folded."""


def data() -> Console:
    return _console(stderr=False)


def progress() -> Console:
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else PLAIN_WIDTH)


def json(document: object) -> None:
    sys.stdout.write(jsonlib.dumps(document, indent=2, ensure_ascii=False) + "\n")


def json_line(document: object) -> None:
    """One a line, for what does not end."""
    sys.stdout.write(jsonlib.dumps(document, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def failure(error: TidegateError) -> None:
    """What, why, what to do next."""
    console = progress()
    console.print(Text.assemble((f"{error.code}: ", "bold red"), error.message), soft_wrap=True)
    for problem in error.problems if isinstance(error, ConfigError) else ():
        console.print(Text(f"  {problem}"), soft_wrap=True)
    if error.remedy:
        console.print(Text(error.remedy), soft_wrap=True)
