"""What commands that ask the service share: where it is, which pipeline, and how an answer is shown."""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

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


@dataclass(frozen=True, slots=True)
class _Told:
    """By the options that every command of a group takes."""

    url: str
    token: str | None
    pipeline: str | None


class _Group(TyperGroup):
    """Its commands take the group's own options too: who is refused for want of one adds it at the end."""

    def __init__(self, **settings: Any) -> None:  # typer's
        super().__init__(**settings)
        for command in self.commands.values():
            command.params += [_behind(option) for option in self.params]


def group(text: str) -> typer.Typer:
    """A group of commands; where the service is, is said before the command or behind it."""
    return typer.Typer(cls=_Group, help=text, no_args_is_help=True, callback=_remember)


def asking(context: typer.Context) -> Context:
    told: _Told = context.obj
    return Context(Client(told.url, told.token), told.pipeline)


def _remember(context: typer.Context, url: Url = URL, token: TokenOption = None, pipeline: Pipeline = None) -> None:
    context.obj = _Told(url, token, pipeline)


def _behind(option: Any) -> Any:  # typer brings its own click, whose types are not public
    made = copy(option)
    made.expose_value, made.callback, made.rich_help_panel = False, _add, "Where to ask"
    return made


def _add(context: Any, option: Any, value: Any) -> Any:  # likewise
    """What is typed behind the command. Its environment and default have had their say before it."""
    if context.get_parameter_source(option.name).name == "COMMANDLINE" and isinstance(context.obj, _Told):
        context.obj = replace(context.obj, **{option.name: value})
    return value


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
