"""What several commands take, and how something that destroys is confirmed."""

import sys
from datetime import datetime
from typing import Annotated

import typer

from tidegate.errors import ConfigError
from tidegate_admin.cli.client import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE, Client

Json = Annotated[bool, typer.Option("--json", help="As JSON on stdout, for programs.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Url = Annotated[str, typer.Option(envvar="TIDEGATE_URL", help="The admin service.")]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar=TOKEN_VARIABLE,
        show_envvar=True,
        help=f"Better by the variable, or in the file that {TOKEN_FILE_VARIABLE} names: others see options.",
    ),
]
Pipeline = Annotated[
    str | None, typer.Option("--pipeline", "-p", help="Which pipeline, where the service has more than one.")
]
URL = "http://127.0.0.1:8080"


def confirmed(what: str, *, yes: bool, word: str | None = None) -> None:
    """Asks at a terminal; elsewhere it takes --yes. With `word` that has to be typed, a yes is too easy."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError(f"nobody is here to confirm: {what}", code="CONFIRM", remedy="Say --yes.")
    if word is None:
        typer.confirm(f"{what}?", abort=True, err=True)
    elif typer.prompt(f"{what}. Type {word} to go on", err=True) != word:
        raise ConfigError("it was not confirmed", code="CONFIRM", remedy=f"Type {word} exactly.")


def path_of(client: Client, pipeline: str | None) -> str:
    """`/api/v1/pipelines/<name>`: the one that is named, or the only one there is."""
    if pipeline is None:
        names = [each["name"] for each in client.pages("/api/v1/pipelines")]
        if len(names) != 1:
            raise ConfigError(
                f"the service has {len(names)} pipelines", code="PIPELINE_AMBIGUOUS", remedy="Name one: --pipeline."
            )
        pipeline = names[0]
    return f"/api/v1/pipelines/{pipeline}"


def microseconds(text: str | None) -> int | None:
    """Of unix time."""
    if text is None:
        return None
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1_000_000)
    except ValueError:
        raise ConfigError("this is no time", code="TIME_INVALID", remedy="Write it as 2026-01-31T12:00Z.") from None
