"""The demo for people: a live picture on a terminal, one line every few seconds elsewhere.

Invariant: nothing is computed here; both views show the same figures.
"""

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tidegate.lag import Lag
from tidegate.lsn import format_lsn
from tidegate.stack.supervisor import ServiceState
from tidegate_admin.demo.progress import DemoProgress
from tidegate_admin.pipelines.service import LaneView, PipelineView
from tidegate_admin.ui.units import format_bytes, format_latency, format_seconds

_GOOD, _WARN, _BAD, _QUIET = "green", "yellow", "red", "dim"
_OPERATIONS = {"INSERT": "green", "UPDATE": "cyan", "DELETE": "red"}


def picture(progress: DemoProgress) -> RenderableType:
    tables = Columns([_events(progress), _services(progress)], padding=(0, 3))
    parts = (_title(progress), _gate(progress.view), _figures(progress), Text(), tables, Text(), _places(progress))
    return Panel(Group(*parts), border_style="cyan", padding=(1, 2))


def line(progress: DemoProgress) -> str:
    rates, view = progress.rates(), progress.view
    reader = view.reader.status if view else None
    lanes = " ".join(f"lag[{lane.sink}] {_seconds(lane.lag)}" for lane in view.lanes) if view else "lag –"
    return (
        f"{progress.running_seconds:5.0f} s  {progress.stage}  "
        f"lsn {format_lsn(reader.server_lsn) if reader else '–'}  raw {reader.raw_offset if reader else '–'}  {lanes}  "
        f"{progress.ledger.delivered} events  {rates.events_a_second:.0f}/s  "
        f"p50 {format_latency(rates.p50_seconds)}  p99 {format_latency(rates.p99_seconds)}  "
        f"wal {_held(progress)}  restarts {progress.restarts}"
    )


def startup_line(name: str, state: str, seconds: float) -> str:
    return f"{name:9} {state:9} {seconds:5.1f} s"


def announce(console: Console, progress: DemoProgress) -> None:
    for what, where in progress.places:
        console.print(f"{what:12} {where}", highlight=False, soft_wrap=True)


def _title(progress: DemoProgress) -> Text:
    first = progress.first_event_seconds
    text = Text("Tidegate demo", style="bold cyan")
    text.append(f"   {progress.stage}, {progress.running_seconds:.0f} s", style="bold")
    text.append(f"   first event after {first:.1f} s" if first else "   no event yet", style=_QUIET)
    return text


def _gate(view: PipelineView | None) -> RenderableType:
    """source → raw → lanes → gate → slot, with what is behind written on the way."""
    table = Table.grid(padding=(0, 1), expand=False)
    for _ in range(9):
        table.add_column(justify="center")
    if view is None:
        return Text("\nnothing is seen of the pipeline yet\n", style=_QUIET)
    reader, held = view.reader.status, view.gate_holder
    source = format_lsn(reader.server_lsn) if reader else "–"
    confirmed = format_lsn(reader.confirmed_lsn) if reader else "–"
    lanes = Group(*(_lane(lane) for lane in view.lanes))
    gate = Text("open", style=f"bold {_GOOD}") if held is None else Text(f"held by {held}", style=f"bold {_WARN}")
    heads = ("Source", "", "Raw topic", "", "Lanes", "", "Gate", "", "Slot")
    table.add_row(*(Text(head, style="bold") for head in heads))
    table.add_row(
        source, _way(view.read), str(reader.raw_offset) if reader else "–", _way(_worst(view)), lanes, _way(None), gate,
        _way(view.confirm), confirmed,
    )  # fmt: skip
    return Group(Text(), table, Text())


def _lane(lane: LaneView) -> Text:
    style = _GOOD if lane.state == "running" else _BAD
    return Text.assemble((lane.sink, f"bold {style}"), (f" {lane.state}, lag {_seconds(lane.lag)}", _QUIET))


def _way(lag: Lag | None) -> Text:
    if lag is None or not lag.bytes:
        return Text("≈≈≈▶", style="blue")
    return Text(f"≈ {format_bytes(lag.bytes)} ≈▶", style=_WARN if lag.seconds >= 1 else "blue")


def _worst(view: PipelineView) -> Lag | None:
    return max((lane.lag for lane in view.lanes if lane.lag), key=lambda lag: lag.bytes, default=None)


def _figures(progress: DemoProgress) -> Table:
    rates, balance = progress.rates(), progress.ledger.balance()
    figures = (
        ("events/s", f"{rates.events_a_second:.0f}"),
        ("latency p50", format_latency(rates.p50_seconds)),
        ("latency p99", format_latency(rates.p99_seconds)),
        ("WAL held", _held(progress)),
        ("written", str(balance.written)),
        ("delivered", str(balance.delivered)),
        ("duplicates", str(balance.duplicates)),
        ("out of order", str(balance.out_of_order)),
        ("restarts", str(progress.restarts)),
    )
    table = Table.grid(padding=(0, 3))
    for _ in figures:
        table.add_column()
    table.add_row(*(Text(name, style=_QUIET) for name, _ in figures))
    table.add_row(*(Text(value, style="bold") for _, value in figures))
    return table


def _events(progress: DemoProgress) -> Table:
    table = Table(title="Last events", title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    for name in ("operation", "table", "key"):
        table.add_column(name, header_style=_QUIET)
    table.add_column("ms", justify="right", header_style=_QUIET)
    for event in reversed(progress.last_events):
        change = event.change
        operation = Text(change.operation, style=_OPERATIONS.get(change.operation, ""))
        key = ", ".join(map(str, change.key))
        table.add_row(operation, change.table, key, f"{event.latency_seconds * 1000:.0f}")
    return table


def _services(progress: DemoProgress) -> Table:
    table = Table(title="Services", title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    for name in ("name", "state", "pid", "restarts"):
        table.add_column(name, header_style=_QUIET)
    for service in progress.services:
        style = _GOOD if service.state is ServiceState.RUNNING else _WARN
        pid = "–" if service.pid is None else str(service.pid)
        table.add_row(service.name, Text(service.state, style=style), pid, str(service.restarts))
    return table


def _places(progress: DemoProgress) -> Table:
    table = Table.grid(padding=(0, 2))
    for what, where in progress.places:
        table.add_row(Text(what, style=_QUIET), Text(where, overflow="fold"))
    return table


def _seconds(lag: Lag | None) -> str:
    return "–" if lag is None else format_seconds(lag.seconds)


def _held(progress: DemoProgress) -> str:
    held = progress.wal_held_bytes
    return "–" if held is None else format_bytes(held)
