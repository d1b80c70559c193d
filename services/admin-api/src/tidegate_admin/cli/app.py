"""`tidegate`: what a person does. Data on stdout, progress on stderr, plain where there is no terminal.

Invariant: every command ends with an exit code of the design, and a failure says what, why and what to do next.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from tidegate.errors import TidegateError
from tidegate_admin.cli import configuration, dlq, lane, look, output, publication, slot, snapshot, token
from tidegate_admin.cli.options import URL, Json, TokenOption, Url

app = typer.Typer(
    name="tidegate",
    help="PostgreSQL changes to topics, in order, and nothing lost.\n\n"
    "Start with [bold]tidegate demo[/bold]: real servers, the whole fleet and a shop that writes by itself.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(look.pipelines, name="pipelines")
app.add_typer(lane.app, name="lane")
app.add_typer(configuration.app, name="config")
app.add_typer(slot.app, name="slot")
app.add_typer(publication.app, name="publication")
app.add_typer(publication.source, name="source")
app.add_typer(snapshot.app, name="snapshot")
app.add_typer(dlq.app, name="dlq")
app.add_typer(look.frames, name="frames")
app.command(name="where-is")(look.where_is)
app.command(name="events")(look.events)
app.add_typer(token.app, name="token")

State = Annotated[
    Path | None,
    typer.Option("--state", metavar="DIR", help="Where servers keep data and logs. Default: below $TIDEGATE_STATE."),
]
Files = Annotated[list[Path] | None, typer.Option("--config", metavar="FILE", help="A pipeline.yaml; again for more.")]


@app.command()
def validate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline.yaml to check.")],
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="As the services take it.")
    ] = None,
    secrets: Annotated[bool, typer.Option(help="Check that secrets can be read on this machine.")] = True,
    json: Json = False,
) -> None:
    """Tell every mistake in a configuration at once. Exit 0: it would be taken, 2: it would be refused."""
    from tidegate_admin.cli.validate import run

    raise typer.Exit(run(file, overrides or [], secrets=secrets, as_json=json))


@app.command()
def doctor(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline.yaml whose surroundings to look at.")],
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="As the services take it.")
    ] = None,
    json: Json = False,
) -> None:
    """Look at source, raw topic and Redis as the reader does before it starts, and tell all findings at once.

    Exit 0: it would start, 1: something could not be asked, 2: it would refuse.
    """
    from tidegate_admin.cli.doctor import run

    raise typer.Exit(run(file, overrides or [], as_json=json))


@app.command()
def status(
    config: Files = None,
    url: Url = URL,
    token: TokenOption = None,
    json: Json = False,
) -> None:
    """Show pipelines, readers and lanes: from the admin service, or with --config from Redis and PostgreSQL."""
    from tidegate_admin.cli.status import run

    raise typer.Exit(run(config or [], url, token, as_json=json))


@app.command()
def up(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE", help="Your pipeline.yaml. Default: the demo's shop, without a writer."
        ),
    ] = None,
    state: State = None,
) -> None:
    """Run the fleet on this machine until Ctrl-C, with an embedded Kafka and Redis; your database stays yours."""
    from tidegate_admin.cli.up import run

    raise typer.Exit(run(config, state))


@app.command()
def down(state: State = None) -> None:
    """Stop what `tidegate up` or `tidegate demo` runs on this machine, in order, and wait until it has stopped."""
    from tidegate_admin.cli.down import run

    raise typer.Exit(run(state))


@app.command()
def demo(
    seconds: Annotated[
        str | None,
        typer.Option(envvar="DEMO_SECONDS", metavar="N", help="End by itself N seconds after the first event."),
    ] = None,
    rate: Annotated[float, typer.Option(min=1, max=500, help="Row changes a second that the shop makes.")] = 30.0,
    state: State = None,
    plain: Annotated[bool, typer.Option("--plain", help="Lines instead of the live picture.")] = False,
) -> None:
    """Start servers, fleet and a shop that writes by itself; watch; prove at the end that nothing was lost.

    Exit 0: every change arrived, in order. Exit 1: not so, and it says what is missing.
    """
    from tidegate_admin.cli.demo import run

    raise typer.Exit(run(seconds or None, rate, state, plain=plain))


@app.command()
def version(json: Json = False) -> None:
    """Show the versions of Tidegate and of what it stands on."""
    from tidegate_admin.cli.version import run

    raise typer.Exit(run(as_json=json))


def main() -> None:
    try:
        app()
    except TidegateError as error:
        output.failure(error)
        sys.exit(error.exit_code)
