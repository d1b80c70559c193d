"""`tidegate slot`: replication slots of the source's server."""

from typing import Annotated

import typer

from tidegate_admin.cli import output
from tidegate_admin.cli.context import asking, group, show, show_list
from tidegate_admin.cli.options import Json, Yes, confirmed

app = group("Replication slots: own, orphan and foreign ones, and what they hold.")

Name = Annotated[str, typer.Argument(metavar="SLOT")]
_COLUMNS = ("name", "whose", "active", "wal_status", "wal_held_bytes", "safe_wal_bytes", "confirmed_flush_lsn")


@app.command("list")
def list_slots(context: typer.Context, json: Json = False) -> None:
    """List all slots of the server. An orphan holds WAL for ever."""
    asked = asking(context)
    show_list(asked.client.pages(f"{asked.path}/slots"), _COLUMNS, as_json=json)


@app.command("show")
def show_slot(context: typer.Context, name: Name, json: Json = False) -> None:
    """Show one slot and who holds it."""
    asked = asking(context)
    show(asked.client.get(f"{asked.path}/slots/{name}"), as_json=json)


@app.command()
def create(context: typer.Context, json: Json = False) -> None:
    """Create the pipeline's own slot. It keeps WAL from now on."""
    asked = asking(context)
    show(asked.client.post(f"{asked.path}/slots"), as_json=json)


@app.command()
def drop(context: typer.Context, name: Name, yes: Yes = False, json: Json = False) -> None:
    """Drop a slot that nobody holds. What it kept is gone."""
    asked = asking(context)
    confirmed(f"Drop slot {name}, and what it keeps", yes=yes, word=name)
    show(asked.client.post(f"{asked.path}/slots/{name}/drop", {"confirm": name}), as_json=json)


@app.command()
def advance(
    context: typer.Context,
    name: Name,
    to: Annotated[str, typer.Argument(metavar="LSN")],
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Beyond what all required sinks have acked: it is lost.")
    ] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Let a slot that nobody holds forget WAL up to an LSN."""
    asked = asking(context)
    confirmed(f"Let {name} forget everything before {to}", yes=yes, word=name)
    body = {"to": to, "confirm": name, "accept_loss": accept_loss}
    answer = asked.client.post(f"{asked.path}/slots/{name}/advance", body)
    output.progress().print(f"{name} is at {answer['confirmed_flush_lsn']}", highlight=False)
    if json:
        output.json(answer)
