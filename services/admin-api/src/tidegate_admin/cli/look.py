"""`tidegate pipelines`, `where-is`, `frames`, `events`: what is where, now."""

import json as jsonlib
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from tidegate.errors import ConfigError, ExitCode, TransientError
from tidegate_admin.cli import output
from tidegate_admin.cli.client import Client
from tidegate_admin.cli.context import Limit, asking, group, show, show_list, text
from tidegate_admin.cli.lane import Seconds, ask_all
from tidegate_admin.cli.options import URL, Json, Pipeline, TokenOption, Url, Yes, confirmed, path_of
from tidegate_admin.cli.waiting import until

pipelines = group("Pipelines: reader, lanes, lag by stage, slot, gate.")
frames = group("The raw topic: frames, and their rows.")

Name = Annotated[str, typer.Argument(metavar="LANE")]


@pipelines.command("list")
def list_pipelines(context: typer.Context, json: Json = False) -> None:
    """Show every pipeline of the service."""
    found = list(asking(context).client.pages("/api/v1/pipelines"))
    if json:
        output.json({"items": found})
        return
    _draw(found)


@pipelines.command("show")
def show_pipeline(context: typer.Context, json: Json = False) -> None:
    """Show one pipeline. Exit 1 while a part of it is down."""
    asked = asking(context)
    found = asked.client.get(asked.path)
    if json:
        output.json(found)
    else:
        _draw([found])
    raise typer.Exit(ExitCode.RETRY if found["state"] == "down" else ExitCode.CLEAN)


def _draw(found: list[dict[str, Any]]) -> None:
    """Imported here: every command would else wait for it, and completion too."""
    from tidegate_admin.cli.status import table
    from tidegate_admin.pipelines.schemas import PipelineModel

    output.data().print(table([PipelineModel.model_validate(each) for each in found]))


@pipelines.command()
def pause(context: typer.Context, wait: Seconds = 60, json: Json = False) -> None:
    """Have every lane stand until it is resumed. What required sinks have not acked, the source keeps meanwhile."""
    ask_all(asking(context), "pause", wait, as_json=json)


@pipelines.command()
def resume(context: typer.Context, wait: Seconds = 60, json: Json = False) -> None:
    """Have every lane go on."""
    ask_all(asking(context), "resume", wait, as_json=json)


@pipelines.command()
def changes(context: typer.Context, limit: Limit = 50, json: Json = False) -> None:
    """Show who changed what through the service, newest first."""
    asked = asking(context)
    items = asked.client.pages(f"{asked.path}/changes", limit)
    show_list(items, ("time", "operation", "caller", "address", "status", "path"), as_json=json)


@pipelines.command()
def forget(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="PIPELINE")],
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Also where lanes lack what the raw topic holds: it is lost to them.")
    ] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Have a pipeline begin anew whose slot is gone: its raw topic and what Redis has of it are deleted.

    Stop its reader and its processor first. Dead letters and the topics of sinks stay. Takes the scope destroy.
    """
    asked = asking(context)
    confirmed(f"Delete the raw topic of {name}, and what Redis has of it", yes=yes, word=name)
    body = {"confirm": name, "accept_loss": accept_loss}
    show(asked.client.post(f"/api/v1/pipelines/{name}/forget", body), as_json=json)


@frames.command("list")
def list_frames(
    context: typer.Context,
    offset: Annotated[int | None, typer.Option(help="From this one on.")] = None,
    lsn: Annotated[str | None, typer.Option(help="From the one that reaches it on.")] = None,
    xid: Annotated[int | None, typer.Option(help="From this transaction's first one on.")] = None,
    limit: Limit = 20,
    json: Json = False,
) -> None:
    """List frames from an offset, an LSN or a transaction on; else the newest."""
    asked = asking(context)
    items = asked.client.pages(f"{asked.path}/frames", limit, offset=offset, lsn=lsn, xid=xid)
    show_list(items, ("offset", "kind", "epoch", "seq", "first", "last", "changes", "bytes"), as_json=json)


@frames.command("show")
def show_frame(
    context: typer.Context,
    offset: int,
    rows: Annotated[int, typer.Option(help="How many of its rows, at most.")] = 100,
    json: Json = False,
) -> None:
    """Show one frame with its rows. Takes the scope data."""
    asked = asking(context)
    frame = asked.client.get(f"{asked.path}/frames/{offset}", rows=rows)
    if json:
        output.json(frame)
        return
    show({name: value for name, value in frame.items() if name != "rows"}, as_json=False)
    show_list(frame["rows"], ("operation", "channel", "position", "row", "old"), as_json=False)


def where_is(
    lsn: Annotated[str | None, typer.Argument(metavar="[LSN]")] = None,
    xid: Annotated[int | None, typer.Option(help="By transaction instead.")] = None,
    table: Annotated[str | None, typer.Option(help="By key instead: schema.table.")] = None,
    key: Annotated[str | None, typer.Option(help='With --table: {"id": "7"}.')] = None,
    from_offset: Annotated[int | None, typer.Option(help="By key: where in the raw topic to begin.")] = None,
    url: Url = URL,
    token: TokenOption = None,
    pipeline: Pipeline = None,
    json: Json = False,
) -> None:
    """Say at which stage a change is held: WAL, raw topic, a lane, the slot."""
    client = Client(url, token)
    path = path_of(client, pipeline)
    if table is not None:
        _search(client, path, table, key or "{}", from_offset, as_json=json)
        return
    if (lsn is None) == (xid is None):
        raise ConfigError("an LSN, --xid or --table is needed", code="TARGET_AMBIGUOUS", remedy="Give one of them.")
    found = client.get(f"{path}/where-is", lsn=lsn, xid=xid)
    if json:
        output.json(found)
        return
    held = f" by {found['held_by']}" if found["held_by"] else ""
    why = f": {text(found['reason'])}" if found["reason"] else ""
    output.data().print(Text(f"{found['stage']}{held}{why}"))
    show({name: found[name] for name in ("lsn", "xid", "source_lsn", "raw", "confirmed_flush_lsn")}, as_json=False)
    show_list(found["lanes"], ("sink", "required", "state", "acked", "acked_offset", "reason"), as_json=False)


def _search(client: Client, path: str, table: str, key: str, from_offset: int | None, *, as_json: bool) -> None:
    try:
        parsed = {str(name): str(value) for name, value in jsonlib.loads(key).items()}
    except (ValueError, AttributeError) as error:
        raise ConfigError("--key is no JSON object", code="KEY_INVALID", remedy='As in {"id": "7"}.') from error
    body = {"table": table, "key": parsed} | ({} if from_offset is None else {"from_offset": from_offset})
    job = client.post(f"{path}/searches", body)
    place = f"{path}/searches/{job['id']}"
    bars = (TextColumn("searching the log"), BarColumn(), TextColumn("{task.percentage:.0f}%"), TimeRemainingColumn())
    with Progress(*bars, console=output.progress(), transient=True) as progress:
        task = progress.add_task("search", total=1.0)
        for job in until(lambda: client.get(place)):
            progress.update(task, completed=job["progress"])
            if job["state"] != "running":
                break
    if job["state"] != "done":
        raise TransientError(f"the search {job['state']}", code="SEARCH_FAILED", remedy="Look at the service's log.")
    if as_json:
        output.json(job)
        return
    columns = ("offset", "operation", "commit_lsn", "ordinal", "xid", "stage", "held_by")
    show_list(job["matches"], columns, as_json=False)


def events(
    table: Annotated[list[str] | None, typer.Option(help="schema.table or schema.*; again for more.")] = None,
    operation: Annotated[list[str] | None, typer.Option(help="INSERT, UPDATE …; again for more.")] = None,
    after: Annotated[str | None, typer.Option(help="Go on behind this event's id.")] = None,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many.")] = None,
    url: Url = URL,
    token: TokenOption = None,
    pipeline: Pipeline = None,
    json: Json = False,
) -> None:
    """Follow changes as they come, until Ctrl-C. Takes the scope data."""
    client = Client(url, token)
    headers = {"Last-Event-ID": after} if after else {}
    path = f"{path_of(client, pipeline)}/events"
    left = count
    with client.stream(path, headers, table=table, operation=operation) as lines:
        kind = ""
        for line in lines:
            name, _, value = line.partition(": ")
            kind = value if name == "event" else kind
            if name != "data":
                continue
            _tell(kind, jsonlib.loads(value), as_json=json)
            left = left - 1 if left is not None and kind == "change" else left
            if left == 0:
                return


def _tell(kind: str, data: Any, *, as_json: bool) -> None:
    if kind != "change":
        if kind != "open":
            output.progress().print(Text(f"{kind}: {text(data)}"))
    elif as_json:
        output.json_line(data)
    else:
        row = data["row"] if data["row"] is not None else data["old"]
        output.data().print(
            f"{data['id']}  {data['operation']:8} {text(data['channel'])}  {text(row)}", highlight=False
        )
