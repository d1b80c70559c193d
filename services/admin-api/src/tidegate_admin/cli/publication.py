"""`tidegate publication` and `tidegate source`: what is published, and what could be."""

from typing import Annotated
from urllib.parse import quote

import typer

from tidegate.errors import ConfigError
from tidegate_admin.cli.context import asking, group, show, show_list
from tidegate_admin.cli.options import Json, Yes, confirmed

app = group("Publications: which tables, and by what identity.")
source = group("The source: databases, schemas, tables, columns.")

Publication = Annotated[str, typer.Argument(metavar="PUBLICATION")]
TableName = Annotated[str, typer.Argument(metavar="SCHEMA.TABLE")]


@app.command("list")
def list_publications(context: typer.Context, json: Json = False) -> None:
    """List the publications of the pipeline's database."""
    asked = asking(context)
    columns = ("name", "is_used", "is_managed", "all_tables", "tables", "operations")
    show_list(asked.client.pages(f"{asked.path}/publications"), columns, as_json=json)


@app.command()
def tables(context: typer.Context, publication: Publication, json: Json = False) -> None:
    """List the tables of one, with their replica identity."""
    asked = asking(context)
    items = asked.client.pages(f"{asked.path}/publications/{quote(publication, safe='')}/tables")
    show_list(items, ("schema", "table", "identity", "has_row_filter", "columns"), as_json=json)


@app.command()
def add(
    context: typer.Context,
    publication: Publication,
    table: TableName,
    accept_no_identity: Annotated[
        bool, typer.Option("--accept-no-identity", help="UPDATE and DELETE then fail in the application.")
    ] = False,
    json: Json = False,
) -> None:
    """Publish one table more."""
    asked = asking(context)
    body = _table(table) | {"accept_no_identity": accept_no_identity}
    path = f"{asked.path}/publications/{quote(publication, safe='')}/tables"
    show(asked.client.post(path, body), as_json=json)


@app.command()
def remove(
    context: typer.Context, publication: Publication, table: TableName, yes: Yes = False, json: Json = False
) -> None:
    """Publish one table less. Its later changes reach nobody."""
    asked = asking(context)
    confirmed(f"Publish {table} no more", yes=yes, word=table)
    path = f"{asked.path}/publications/{quote(publication, safe='')}/tables/remove"
    show(asked.client.post(path, _table(table) | {"confirm": table}), as_json=json)


@source.command("show")
def show_source(context: typer.Context, json: Json = False) -> None:
    """Show the source's server and its databases."""
    asked = asking(context)
    show(asked.client.get(f"{asked.path}/source"), as_json=json)


@source.command("tables")
def source_tables(
    context: typer.Context,
    schema: Annotated[str | None, typer.Option(help="Of this schema only.")] = None,
    json: Json = False,
) -> None:
    """List tables: identity, size, published or not."""
    asked = asking(context)
    items = asked.client.pages(f"{asked.path}/source/tables", schema=schema)
    show_list(items, ("schema", "table", "identity", "rows", "bytes", "is_published"), as_json=json)


@source.command()
def columns(context: typer.Context, table: TableName, json: Json = False) -> None:
    """List a table's columns, and how an event holds each."""
    asked = asking(context)
    answer = asked.client.get(f"{asked.path}/source/table", **_table(table))
    shown = ("name", "type", "json_form", "nullable", "is_key")
    show_list(answer["columns"], shown, as_json=json)


def _table(text: str) -> dict[str, str]:
    schema, dot, table = text.partition(".")
    if not dot or not schema or not table:
        raise ConfigError("a table is written schema.table", code="TABLE_FORM", remedy="As in public.orders.")
    return {"schema": schema, "table": table}
