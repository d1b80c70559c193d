"""`tidegate dlq`: dead letters, until their lane delivers them after all or somebody gives them up."""

import time
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from tidegate.errors import ConfigError, StreamError, TransientError
from tidegate_admin.cli import output
from tidegate_admin.cli.context import Limit, asking, group, show, show_list
from tidegate_admin.cli.options import Json, Yes, confirmed
from tidegate_admin.cli.waiting import until

app = group("Dead letters: find them, look at one, deliver them again, give them up.")

_TOLD = ("id", "letters", "is_cut", "answered", "fates")
_BARS = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())

Lane = Annotated[str | None, typer.Option(help="Of this lane only.")]
Code = Annotated[str | None, typer.Option(help="Of this error only.")]
Table = Annotated[str | None, typer.Option(help="Of this table only: schema.table.")]
Id = Annotated[str, typer.Argument(metavar="ID")]
Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]…")]


@app.command("list")
def list_letters(
    context: typer.Context,
    lane: Lane = None,
    code: Code = None,
    table: Table = None,
    key: Annotated[str | None, typer.Option(help='Of this row only: {"id": "7"}, with --table.')] = None,
    limit: Limit = 50,
    json: Json = False,
) -> None:
    """List dead letters, newest first."""
    asked = asking(context)
    items = asked.client.pages(f"{asked.path}/dead-letters", limit, lane=lane, code=code, table=table, key=key)
    show_list(items, ("id", "lane", "code", "table", "operation", "commit_lsn", "found"), as_json=json)


@app.command()
def counts(context: typer.Context, json: Json = False) -> None:
    """Count them by lane, error and table."""
    asked = asking(context)
    show_list(
        asked.client.get(f"{asked.path}/dead-letters/counts")["items"],
        ("lane", "code", "table", "letters"),
        as_json=json,
    )


@app.command("show")
def show_letter(
    context: typer.Context, identity: Annotated[str, typer.Argument(metavar="ID")], json: Json = False
) -> None:
    """Show one with its row. Takes the scope data."""
    asked = asking(context)
    show(asked.client.get(f"{asked.path}/dead-letters/{identity}"), as_json=json)


@app.command()
def purge(
    context: typer.Context,
    ids: Ids = None,
    lane: Lane = None,
    code: Code = None,
    table: Table = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many there are.")] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Give dead letters up, for ever. Takes the scope destroy."""
    asked, chosen = asking(context), _chosen(ids, lane, code, table)
    path = f"{asked.path}/dead-letters/purge"
    answer = asked.client.post(path, chosen | {"dry_run": True})
    if not dry_run:
        count = answer["letters"]
        some = "the oldest " if answer["is_cut"] else ""
        confirmed(f"Give up {some}{count} dead letters for ever", yes=yes, word=str(count))
        with output.progress().status(f"giving up {count} dead letters"):
            answer = asked.client.post(path, chosen | {"confirm": count, "digest": answer["digest"]})
    show(answer, as_json=json)


@app.command()
def replay(
    context: typer.Context,
    ids: Ids = None,
    lane: Lane = None,
    code: Code = None,
    table: Table = None,
    to: Annotated[str | None, typer.Option(help="To this sink instead of their own; then they stay open.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would become of each.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also where something newer has been delivered.")] = False,
    wait: Annotated[float, typer.Option("--wait", min=0, help="So many seconds for the lanes' answers.")] = 600,
    json: Json = False,
) -> None:
    """Have their lanes deliver them again: each once, and none over something newer of its key."""
    asked, deadline = asking(context), time.monotonic() + wait
    body = _chosen(ids, lane, code, table) | {"dry_run": dry_run, "force": force}
    made = asked.client.post(f"{asked.path}/dead-letters/replay", body | ({"to": to} if to else {}))
    with Progress(*_BARS, console=output.progress(), transient=True) as bar:
        task = bar.add_task("replay", total=made["letters"])
        for answer in until(lambda: asked.client.get(f"{asked.path}/dead-letters/replays/{made['id']}")):
            bar.update(task, completed=answer["answered"])
            if answer["done"] or time.monotonic() > deadline:
                break
    show(answer | {"is_cut": made["is_cut"]}, as_json=json, names=_TOLD)
    if not answer["done"]:
        raise TransientError(
            "the lanes have not answered for all of them yet",
            code="LANE_REQUEST_WAITING",
            remedy="Is the processor running? It still does what it takes within ten minutes.",
        )
    if answer["refusals"]:
        first = answer["refusals"][0]
        raise StreamError(first["message"], code=first["code"], remedy=first["remedy"])


def _chosen(ids: list[str] | None, lane: str | None, code: str | None, table: str | None) -> dict[str, Any]:
    given = {"lane": lane, "code": code, "table": table}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if ids:
        chosen["ids"] = ids
    if not chosen:
        raise ConfigError(
            "nothing says which dead letters are meant",
            code="SELECTION_EMPTY",
            remedy="Give ids, or --lane and the like.",
        )
    return chosen
