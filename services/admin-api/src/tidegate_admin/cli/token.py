"""`tidegate token`: makes, lists and revokes the tokens of the admin service, in its file and without the service."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from tidegate.errors import ConfigError
from tidegate_admin.cli import output
from tidegate_admin.cli.options import Json, Yes, confirmed
from tidegate_admin.security import tokens
from tidegate_admin.security.scopes import Scope
from tidegate_admin.security.tokens import TOKENS_VARIABLE

app = typer.Typer(help="Make, list and revoke tokens of the admin service.", no_args_is_help=True)

File = Annotated[
    Path,
    typer.Option("--file", envvar=TOKENS_VARIABLE, metavar="FILE", help="The file the service reads as --tokens."),
]


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Whose token it is: it stands in the audit log.")],
    file: File,
    scope: Annotated[
        list[Scope] | None,
        typer.Option(help="Again for more. read: states; data: rows; operate: changes that lose nothing; destroy."),
    ] = None,
    days: Annotated[int | None, typer.Option(min=1, max=3650, help="Expires after so many days.")] = None,
    json: Json = False,
) -> None:
    """Make a token and show it, once. Default scope: read."""
    expires = int(time.time()) + days * 86_400 if days else None
    token, text = tokens.create(file, name, frozenset(scope or [Scope.READ]), expires)
    if json:
        output.json({"id": token.id, "name": token.name, "scopes": sorted(token.scopes), "token": text})
        return
    output.progress().print(f"{token.name} ({', '.join(sorted(token.scopes))}), kept as a digest in {file}")
    output.progress().print("This is the token. It is not shown again:")
    output.data().print(text, highlight=False)


@app.command("list")
def list_tokens(file: File, json: Json = False) -> None:
    """List the tokens in the file: who, which scopes, until when."""
    found = tokens.read_tokens(file)
    if json:
        shown = [token.model_dump(mode="json", exclude={"sha256"}) for token in found]
        output.json({"items": [each | {"scopes": sorted(each["scopes"])} for each in shown]})
        return
    table = Table("ID", "NAME", "SCOPES", "MADE", "EXPIRES", box=None, padding=(0, 2, 0, 0))
    for token in found:
        scopes = ", ".join(sorted(token.scopes))
        table.add_row(token.id, token.name, scopes, _time(token.created), _time(token.expires))
    output.data().print(table)


@app.command()
def revoke(
    identity: Annotated[str, typer.Argument(metavar="ID", help="As `token list` shows it.")],
    file: File,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Revoke a token. The service refuses it within a second."""
    confirmed(f"revoke {identity}", yes=yes)
    if tokens.revoke(file, identity) is None:
        raise ConfigError(
            f"no token has the id {identity}", code="TOKEN_UNKNOWN", remedy="`tidegate token list` shows them."
        )
    output.progress().print(f"revoked {identity}")
    if json:
        output.json({"id": identity, "done": "revoked"})


def _time(seconds: int | None) -> str:
    return "–" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}Z"
