"""`tidegate snapshot`: rows that are there already, read beside the stream."""

import re
import time
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from tidegate.errors import ConfigError, StreamError, TransientError
from tidegate_admin.cli import output
from tidegate_admin.cli.context import Context, Limit, asking, group, show, show_list, text
from tidegate_admin.cli.options import Json, Yes, confirmed
from tidegate_admin.cli.waiting import until
from tidegate_admin.ui.units import format_count, format_seconds

app = group("Snapshots: rows that are there already, read beside the stream.")

Id = Annotated[str, typer.Argument(metavar="ID")]
Seconds = Annotated[float, typer.Option("--wait", min=0, help="So many seconds for the reader's answer.")]

_LISTED = ("id", "kind", "state", "percent", "tables_done", "tables", "rows", "by")
_TABLES = ("table", "state", "percent", "rows", "estimated_rows", "rows_per_second", "seconds_left", "note")
_TABLES_DRAWN = 8
_FILTER = re.compile(
    r"(?P<column>[^\s<>=!]+)\s*(?P<comparison>is not null|is null|!=|<=|>=|=|<|>)\s*(?P<value>.*)", re.S
)
_OVER = ("done", "cancelled", "failed")


@app.command()
def start(
    context: typer.Context,
    tables: Annotated[list[str] | None, typer.Argument(metavar="[TABLE]…", help="schema.table; none: all.")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", metavar="FILTER", help="As `schema.table: id >= 1000`; again for more."),
    ] = None,
    priority: Annotated[int, typer.Option(min=-100, max=100, help="The highest is read first.")] = 0,
    wait: Seconds = 60,
    follow: Annotated[bool, typer.Option("--follow", help="Until it is over.")] = False,
    json: Json = False,
) -> None:
    """Have the reader read tables while the stream goes on."""
    asked = asking(context)
    body = {"tables": tables or [], "filters": [_filter(each) for each in where or ()], "priority": priority}
    made = asked.client.post(f"{asked.path}/snapshots", body)
    _answered(asked, made, wait)
    if follow:
        _follow(asked, made["snapshot"], as_json=json)
    else:
        show(made, as_json=json)


@app.command("list")
def list_snapshots(context: typer.Context, limit: Limit = 50, json: Json = False) -> None:
    """List snapshots, the newest first."""
    asked = asking(context)
    show_list(asked.client.pages(f"{asked.path}/snapshots", limit), _LISTED, as_json=json)


@app.command("show")
def show_snapshot(
    context: typer.Context,
    identity: Id,
    follow: Annotated[bool, typer.Option("--follow", help="Until it is over.")] = False,
    json: Json = False,
) -> None:
    """Show one, table by table."""
    asked = asking(context)
    if follow:
        _follow(asked, identity, as_json=json)
        return
    _show(asked.client.get(f"{asked.path}/snapshots/{identity}"), as_json=json)


@app.command()
def pause(context: typer.Context, identity: Id, wait: Seconds = 60, json: Json = False) -> None:
    """Have one stand until it is resumed."""
    _ask(asking(context), identity, "pause", wait, as_json=json)


@app.command()
def resume(context: typer.Context, identity: Id, wait: Seconds = 60, json: Json = False) -> None:
    """Have one go on."""
    _ask(asking(context), identity, "resume", wait, as_json=json)


@app.command()
def cancel(context: typer.Context, identity: Id, wait: Seconds = 60, yes: Yes = False, json: Json = False) -> None:
    """End one. What has been read stays where it is."""
    confirmed("End the snapshot: what is not read yet is not sent", yes=yes, word=identity[:8])
    _ask(asking(context), identity, "cancel", wait, as_json=json)


def _ask(asked: Context, identity: str, what: str, wait: float, *, as_json: bool) -> None:
    made = asked.client.post(f"{asked.path}/snapshots/{identity}/{what}")
    show(_answered(asked, made, wait), as_json=as_json, names=("id", "result"))


def _answered(asked: Context, made: dict[str, Any], seconds: float) -> dict[str, Any]:
    deadline = time.monotonic() + seconds
    with output.progress().status(f"{made['asked']} {made['snapshot'][:8]}"):
        for answer in until(lambda: asked.client.get(f"{asked.path}/snapshots/requests/{made['id']}")):
            if answer["result"] != "waiting" or time.monotonic() > deadline:
                break
    if answer["result"] == "waiting":
        raise TransientError(
            "the reader has not answered yet",
            code="SNAPSHOT_REQUEST_WAITING",
            remedy="Does it run? It still does the request when it takes it.",
        )
    if answer["result"] == "refused":
        raise StreamError(answer["message"], code=answer["code"], remedy=answer["remedy"])
    return dict(answer)


def _follow(asked: Context, identity: str, *, as_json: bool) -> None:
    bars = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.1f}%"),
        TextColumn("{task.fields[pace]}"), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*bars, console=output.progress(), transient=True) as progress:
        drawn: dict[str, TaskID] = {}
        for found in until(lambda: asked.client.get(f"{asked.path}/snapshots/{identity}")):
            _draw(progress, drawn, found)
            if found["state"] in _OVER:
                break
    _show(found, as_json=as_json)
    if found["state"] == "failed":
        raise StreamError(found["message"], code=found["code"], remedy=found["remedy"])


def _draw(progress: Progress, drawn: dict[str, TaskID], found: dict[str, Any]) -> None:
    """A bar for all of it, and one for each table that moves."""
    moving = [each for each in found["by_table"] if each["rows_per_second"] > 0][:_TABLES_DRAWN]
    waits = f", waits for {text(found['waits_for'])}" if found["waits_for"] else ""
    lines = {"": (f"{found['state']}{waits}", found)} | {each["table"]: (text(each["table"]), each) for each in moving}
    for gone in drawn.keys() - lines.keys():
        progress.remove_task(drawn.pop(gone))
    for line, (description, of) in lines.items():
        if line in drawn:
            progress.update(drawn[line], description=description, completed=of["percent"], pace=_pace(of))
        else:
            drawn[line] = progress.add_task(description, total=100.0, completed=of["percent"], pace=_pace(of))


def _pace(of: dict[str, Any]) -> str:
    left = "" if of["seconds_left"] is None else f", {format_seconds(of['seconds_left'])} left"
    return f"{format_count(of['rows'])} rows, {format_count(round(of['rows_per_second']))} a second{left}"


def _show(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        output.json(found)
        return
    show(found, as_json=False, names=(*_LISTED, "rows_per_second", "seconds_left", "waits_for", "code", "message"))
    show_list(found["by_table"], _TABLES, as_json=False)


def _filter(given: str) -> dict[str, Any]:
    table, _, rest = given.partition(":")
    found = _FILTER.fullmatch(rest.strip())
    if found is None or not table.strip():
        raise ConfigError(
            "--where is no filter",
            code="SNAPSHOT_FILTER",
            remedy="Write it as `public.orders: id >= 1000` or `public.orders: note is null`.",
        )
    told: dict[str, Any] = {"table": table.strip(), "column": found["column"], "comparison": found["comparison"]}
    return told if found["comparison"].startswith("is") else told | {"value": found["value"]}
