"""`tidegate config`: what is in force, what another file would change, apply it, go back."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate.errors import ConfigError
from tidegate_admin.cli import output
from tidegate_admin.cli.context import Context, asking, group, show, show_list
from tidegate_admin.cli.options import Json, Yes, confirmed

app = group("Configurations: in force, compared, applied, gone back to.")

File = Annotated[Path, typer.Argument(metavar="FILE", help="A pipeline.yaml.")]

_CHANGES = ("path", "before", "after", "effect")


@app.command("show")
def show_configuration(
    context: typer.Context,
    _json: Annotated[bool, typer.Option("--json", help="It is JSON in any case.")] = False,
) -> None:
    """Show the configuration in force as JSON, without secrets."""
    asked = asking(context)
    output.json(asked.client.get(f"{asked.path}/configuration"))


@app.command()
def diff(context: typer.Context, file: File, json: Json = False) -> None:
    """Show what would be different with a file, and what that takes."""
    asked = asking(context)
    _compare(asked, _text(file), as_json=json)


@app.command()
def apply(context: typer.Context, file: File, yes: Yes = False, json: Json = False) -> None:
    """Write a file where the services read it when they start. Takes the scope destroy."""
    asked, text = asking(context), _text(file)
    now = asked.client.get(f"{asked.path}/configuration/versions")
    if not yes:
        _compare(asked, text, as_json=False)
    pipeline = asked.path.rpartition("/")[2]
    confirmed(f"Apply {file} to {pipeline}", yes=yes, word=pipeline)
    body = {"text": text, "confirm": pipeline}
    done = asked.client.put(f"{asked.path}/configuration", body, {"If-Match": f'"{now["digest"]}"'})
    _applied(done, as_json=json)


@app.command()
def history(context: typer.Context, json: Json = False) -> None:
    """List what was applied, the newest first, and which lanes follow still."""
    asked = asking(context)
    found = asked.client.get(f"{asked.path}/configuration/versions")
    if json:
        output.json(found)
        return
    show(found, as_json=False, names=("digest", "epoch", "in_force", "lanes"))
    show_list(found["items"], ("number", "digest", "epoch", "by", "time", "raw_offset", "is_in_file"), as_json=False)


@app.command("version")
def show_version(
    context: typer.Context, number: Annotated[int, typer.Argument(metavar="VERSION", min=1)], json: Json = False
) -> None:
    """Show one version's text as it was written. Takes the scope operate."""
    asked = asking(context)
    found = asked.client.get(f"{asked.path}/configuration/versions/{number}")
    if json:
        output.json(found)
    else:
        sys.stdout.write(found["text"])


@app.command()
def rollback(
    context: typer.Context,
    number: Annotated[int, typer.Argument(metavar="VERSION", min=1)],
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Apply an older version again. Takes the scope destroy."""
    asked = asking(context)
    now = asked.client.get(f"{asked.path}/configuration/versions")
    pipeline = asked.path.rpartition("/")[2]
    confirmed(f"Apply version {number} to {pipeline} again", yes=yes, word=pipeline)
    path = f"{asked.path}/configuration/versions/{number}/restore"
    done = asked.client.post(path, {"confirm": pipeline}, {"If-Match": f'"{now["digest"]}"'})
    _applied(done, as_json=json)


def _compare(asked: Context, text: str, *, as_json: bool) -> None:
    found = asked.client.post(f"{asked.path}/configuration/diff", {"text": text})
    if as_json:
        output.json(found)
    else:
        show_list(
            found["changes"] or found["problems"],
            _CHANGES if found["valid"] else ("pointer", "code", "reason"),
            as_json=False,
        )
    if not found["valid"]:
        raise ConfigError("this file would be refused", code="CONFIG_INVALID", remedy="`tidegate validate` says more.")


def _applied(done: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        output.json(done)
        return
    show(done["version"], as_json=False, names=("number", "digest", "epoch", "raw_offset"))
    show_list(done["changes"], _CHANGES, as_json=False)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read", code="CONFIG_UNREADABLE", remedy="Name a file of UTF-8.") from error
