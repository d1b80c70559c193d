"""`tidegate lane`: their states, and what is asked of one. A command ends when the lane has done it or has refused."""

import time
from typing import Annotated, Any

import typer

from tidegate.errors import ConfigError, StreamError, TransientError
from tidegate_admin.cli import output
from tidegate_admin.cli.context import Context, asking, group, show, show_list
from tidegate_admin.cli.options import Json, Yes, confirmed, microseconds
from tidegate_admin.cli.waiting import until

app = group("Lanes: their states, and what may be asked of one.")

Name = Annotated[str, typer.Argument(metavar="LANE")]
Seconds = Annotated[float, typer.Option("--wait", min=0, help="So many seconds for the lane's answer.")]


@app.command("list")
def list_lanes(context: typer.Context, json: Json = False) -> None:
    """List the lanes."""
    asked = asking(context)
    items = asked.client.pages(f"{asked.path}/lanes")
    show_list(items, ("sink", "type", "required", "state", "acked_lsn", "lag", "events"), as_json=json)


@app.command()
def kinds(context: typer.Context, json: Json = False) -> None:
    """List the kinds of sinks that a lane may deliver to, and their options."""
    found = asking(context).client.pages("/api/v1/sinks")
    told = ({"type": each["type"], "options": each["options"].get("properties", {})} for each in found)
    items = [each if json else each | {"options": list(each["options"])} for each in told]
    show_list(items, ("type", "options"), as_json=json)


@app.command()
def pause(context: typer.Context, name: Name, wait: Seconds = 60, json: Json = False) -> None:
    """Have a lane stand until it is resumed. If its sink is required, the source keeps its WAL meanwhile."""
    _ask(asking(context), name, "pause", None, wait, as_json=json)


@app.command()
def resume(context: typer.Context, name: Name, wait: Seconds = 60, json: Json = False) -> None:
    """Have a lane go on: one that was paused, or one that is LOST and whose cause is mended."""
    _ask(asking(context), name, "resume", None, wait, as_json=json)


@app.command()
def ping(context: typer.Context, name: Name, wait: Seconds = 60, json: Json = False) -> None:
    """Have a lane ask its sink whether it answers, with the lane's own configuration and rights."""
    _ask(asking(context), name, "ping", None, wait, as_json=json, of="sinks")


@app.command()
def trial(context: typer.Context, name: Name, wait: Seconds = 120, json: Json = False) -> None:
    """Have a lane write the newest rows to its sink once more and drop them uncommitted: whether it takes them."""
    _ask(asking(context), name, "trial", None, wait, as_json=json, of="sinks")


@app.command()
def rewind(
    context: typer.Context,
    name: Name,
    to: Annotated[str | None, typer.Argument(metavar="[LSN]", help="What commits there or later comes again.")] = None,
    offset: Annotated[int | None, typer.Option(help="From this frame of the raw topic on.")] = None,
    since: Annotated[str | None, typer.Option(help="From what was read at this time on: 2026-01-31T12:00Z.")] = None,
    beginning: Annotated[bool, typer.Option("--beginning", help="All that the raw topic still holds.")] = False,
    wait: Seconds = 120,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Have a lane deliver again what its sink has had: to an LSN, an offset, a time or the beginning."""
    places: dict[str, Any] = {
        "commit_lsn": to,
        "offset": offset,
        "since": microseconds(since),
        "beginning": beginning or None,
    }
    given = {key: value for key, value in places.items() if value is not None}
    if len(given) != 1:
        raise ConfigError(
            "one place is wanted", code="REWIND_PLACE", remedy="Give an LSN, --offset, --since or --beginning."
        )
    confirmed(f"Rewind {name}: its sink gets events again", yes=yes, word=name)
    _ask(asking(context), name, "rewind", given | {"confirm": name}, wait, as_json=json)


def ask_all(asked: Context, what: str, seconds: float, *, as_json: bool) -> None:
    """Of every lane; ends when each has answered, and as the worst of them."""
    deadline = time.monotonic() + seconds
    made = asked.client.post(f"{asked.path}/{what}", None)["items"]
    answers = [{"lane": each["lane"]} | _answer(asked, each["lane"], what, each["id"], deadline) for each in made]
    show_list(answers, ("lane", "result", "code"), as_json=as_json)
    for answer in sorted(answers, key=lambda each: str(each["result"])):
        _check(answer["lane"], answer)


def _ask(
    asked: Context, name: str, what: str, body: object, seconds: float, *, as_json: bool, of: str = "lanes"
) -> None:
    deadline = time.monotonic() + seconds
    made = asked.client.post(f"{asked.path}/{of}/{name}/{what}", body)
    answer = _answer(asked, name, what, made["id"], deadline)
    _check(name, answer)
    show(answer, as_json=as_json, names=("id", "result"))


def _answer(asked: Context, name: str, what: str, identity: str, deadline: float) -> dict[str, Any]:
    place = f"{asked.path}/lanes/{name}/requests/{identity}"
    with output.progress().status(f"{what} {name}"):
        for answer in until(lambda: asked.client.get(place)):
            if answer["result"] != "waiting" or time.monotonic() > deadline:
                break
    return dict(answer)


def _check(name: str, answer: dict[str, Any]) -> None:
    if answer["result"] == "waiting":
        raise TransientError(
            f"{name} has not answered yet",
            code="LANE_REQUEST_WAITING",
            remedy="Is the processor running? It still does the request if it takes it within ten minutes.",
        )
    if answer["result"] == "refused":
        raise StreamError(answer["message"], code=answer["code"], remedy=answer["remedy"])
