"""What commands that ask the service share: where it is, which pipeline, and how an answer is shown."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from tidegate_admin.cli import output
from tidegate_admin.cli.client import Client
from tidegate_admin.cli.options import URL, Pipeline, TokenOption, Url, path_of


@dataclass(frozen=True, slots=True)
class Context:
    client: Client
    pipeline: str | None

    @property
    def path(self) -> str:
        return path_of(self.client, self.pipeline)


def group(text: str) -> typer.Typer:
    """A group of commands; where the service is, is said before the command."""
    return typer.Typer(help=text, no_args_is_help=True, callback=_remember)


def asking(context: typer.Context) -> Context:
    found: Context = context.obj
    return found


def _remember(context: typer.Context, url: Url = URL, token: TokenOption = None, pipeline: Pipeline = None) -> None:
    context.obj = Context(Client(url, token), pipeline)


Limit = Annotated[int, typer.Option(min=1, max=100_000, help="How many, at most.")]


def show(answer: Mapping[str, Any], *, as_json: bool, names: Sequence[str] = ()) -> None:
    """One thing: its members, line by line."""
    if as_json:
        output.json(answer)
        return
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for name in names or answer:
        table.add_row(name, Text(text(answer.get(name))))
    output.data().print(table)


def show_list(items: Iterable[Mapping[str, Any]], columns: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        output.json({"items": list(items)})
        return
    table = Table(*(column.upper() for column in columns), box=None, padding=(0, 2, 0, 0))
    for item in items:
        table.add_row(*(Text(text(item.get(column))) for column in columns))
    output.data().print(table)


def text(value: Any) -> str:
    """Control characters in a name would otherwise write to the terminal as they like."""
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(map(text, value)) or "–"
        case dict():
            return ", ".join(f"{name}={text(each)}" for name, each in value.items()) or "–"
        case _:
            return "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in str(value))
