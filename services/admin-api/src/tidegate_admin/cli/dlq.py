"""`tidegate dlq`: dead letters, until their lane delivers them after all or somebody gives them up."""

import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from tidegate.errors import ConfigError, StreamError, TransientError
from tidegate_admin.cli import output, waiting
from tidegate_admin.cli.context import Context, Limit, asking, group, show, show_list
from tidegate_admin.cli.options import Json, Yes, confirmed, microseconds

app = group("Dead letters: find them, look at one, deliver them again, give them up.")

_TOLD = ("id", "letters", "is_cut", "answered", "fates")
_BARS = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())

Lane = Annotated[str | None, typer.Option(help="Of this lane only.")]
Code = Annotated[str | None, typer.Option(help="Of this error only.")]
Table = Annotated[str | None, typer.Option(help="Of this table only: schema.table.")]
Since = Annotated[str | None, typer.Option(help="Found then or later: 2026-01-31T12:00Z.")]
Until = Annotated[str | None, typer.Option(help="Found before: 2026-01-31T13:00Z.")]
Id = Annotated[str, typer.Argument(metavar="ID")]
Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]…")]


@app.command("list")
def list_letters(
    context: typer.Context,
    lane: Lane = None,
    code: Code = None,
    table: Table = None,
    key: Annotated[str | None, typer.Option(help='Of this row only: {"id": "7"}, with --table.')] = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    json: Json = False,
) -> None:
    """List dead letters, newest first."""
    asked = asking(context)
    wanted = {"lane": lane, "code": code, "table": table, "key": key}
    times = {"since": microseconds(since), "until": microseconds(until)}
    items = asked.client.pages(f"{asked.path}/dead-letters", limit, **wanted, **times)
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
    since: Since = None,
    until: Until = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many there are.")] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Give dead letters up, for ever. Takes the scope destroy."""
    asked, chosen = asking(context), _chosen(ids, lane, code, table, since, until)
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
    since: Since = None,
    until: Until = None,
    to: Annotated[str | None, typer.Option(help="To this sink instead of their own; then they stay open.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would become of each.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also where something newer has been delivered.")] = False,
    wait: Annotated[float, typer.Option("--wait", min=0, help="So many seconds for the lanes' answers.")] = 600,
    json: Json = False,
) -> None:
    """Have their lanes deliver them again: each once, and none over something newer of its key."""
    asked, deadline = asking(context), time.monotonic() + wait
    body = _chosen(ids, lane, code, table, since, until) | {"dry_run": dry_run, "force": force}
    answer = _replayed(asked, body | ({"to": to} if to else {}), deadline)
    show(answer, as_json=json, names=_TOLD)
    if not answer["done"]:
        raise TransientError(
            "the lanes have not answered for all of them yet",
            code="LANE_REQUEST_WAITING",
            remedy="Is the processor running? It still does what it takes within ten minutes.",
        )
    if answer["refusals"]:
        first = answer["refusals"][0]
        raise StreamError(first["message"], code=first["code"], remedy=first["remedy"])


@app.command()
def progress(
    context: typer.Context, identity: Annotated[str, typer.Argument(metavar="REPLAY")], json: Json = False
) -> None:
    """Show how far a replay is that somebody asked for, and what has become of its letters."""
    asked = asking(context)
    found = asked.client.get(f"{asked.path}/dead-letters/replays/{identity}")
    show(found, as_json=json, names=("id", "by", "letters", "answered", "done", "dry_run", "fates", "refusals"))


def _replayed(asked: Context, body: dict[str, Any], deadline: float) -> dict[str, Any]:
    """As many parts as it takes, each once the one before is done; a refusal ends it. All of them as one answer."""
    path, parts = f"{asked.path}/dead-letters", []
    with Progress(*_BARS, console=output.progress(), transient=True) as bar:
        task, before = bar.add_task("replay", total=None), 0
        while True:
            made = asked.client.post(f"{path}/replay", body)
            bar.update(task, total=before + made["letters"])
            for answer in waiting.until(partial(asked.client.get, f"{path}/replays/{made['id']}")):
                bar.update(task, completed=before + answer["answered"])
                if answer["done"] or time.monotonic() > deadline:
                    break
            parts.append(answer)
            before += answer["answered"]
            if made["next_cursor"] is None or not answer["done"] or answer["refusals"]:
                return _together(parts) | {"is_cut": made["is_cut"]}
            body = body | {"cursor": made["next_cursor"]}


def _together(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The last part's answer, with what all of them add up to."""
    fates: Counter[str] = Counter()
    ids: dict[str, list[str]] = {}
    for part in parts:
        fates.update(part["fates"])
        for fate, letters in part["ids"].items():
            ids.setdefault(fate, []).extend(letters)
    summed = {name: sum(part[name] for part in parts) for name in ("letters", "answered")}
    refusals = [refusal for part in parts for refusal in part["refusals"]]
    return parts[-1] | summed | {"fates": dict(fates), "ids": ids, "refusals": refusals}


def _chosen(
    ids: list[str] | None, lane: str | None, code: str | None, table: str | None, since: str | None, until: str | None
) -> dict[str, Any]:
    times = {"since": microseconds(since), "until": microseconds(until)}
    given = {"lane": lane, "code": code, "table": table} | times
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
