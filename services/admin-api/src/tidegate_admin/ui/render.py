"""The page's HTML: one card a pipeline with its gate drawn, source → raw → lanes → ack → slot, and the lag between.

Invariant: every value passes `escape`; a state is told by a word and a shape, never by colour alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from tidegate.observability.health import State
from tidegate_admin.pipelines.schemas import LagModel, LaneModel, PipelineModel
from tidegate_admin.pipelines.service import Shown
from tidegate_admin.ui.panels import fixed_panels, lanes_panel, slot_panel
from tidegate_admin.ui.units import format_bytes, format_count, format_latency, format_seconds

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="/ui/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/ui/page.css">
{script}
</head>
<body>
<a class="skip" href="#live">Skip to the pipelines</a>
<header>
<a class="brand" href="/"><img src="/ui/icon.svg" alt="" width="30" height="30">Tidegate</a>
<nav aria-label="Pages"><a href="/docs">API</a><a href="/readyz">Readiness</a><a href="/metrics">Metrics</a></nav>
</header>
<p id="offline" class="offline" role="status" hidden>The service does not answer. What you see is old.</p>
<main id="live">{body}</main>
<dialog id="dialog" aria-labelledby="dialog-title"><form method="dialog">
<h2 id="dialog-title"></h2><div id="dialog-body"></div>
<menu><button value="cancel" id="dialog-cancel">Close</button><button value="ok" id="dialog-ok" hidden></button></menu>
</form></dialog>
</body>
</html>
"""
_SCRIPT = """<script src="/ui/page.js" defer></script>
<script src="/ui/letters.js" defer></script>
<noscript><meta http-equiv="refresh" content="5"></noscript>"""

_LANES_DRAWN = 6
_GATE = """<svg class="sluice" viewBox="0 0 72 56" aria-hidden="true">
<path class="water" d="M0 42q9-5 18 0t18 0 18 0 18 0v14H0z"/>
<path class="post" d="M18 4v52M54 4v52M12 6h48"/>
<g class="blade"><rect x="20" y="12" width="32" height="42" rx="2"/><path d="M26 20v28M36 20v28M46 20v28"/></g>
</svg>"""


def render_page(title: str, body: str, *, is_live: bool = False) -> str:
    return _PAGE.format(title=escape(title), body=body, script=_SCRIPT if is_live else "")


def render_pipelines(drawn: Mapping[str, str], names: Sequence[str]) -> str:
    """Each pipeline's changing part, which the script renews, and below it what the script fills."""
    return "".join(
        f'<article class="pipeline">{drawn.get(name) or _unseen(name)}'
        f'<div class="panels">{fixed_panels(name)}</div></article>'
        for name in names
    )


def render_live(drawn: Mapping[str, str], names: Sequence[str]) -> str:
    return "".join(drawn.get(name) or _unseen(name) for name in names)


def _unseen(name: str) -> str:
    shown = escape(name)
    return f'<div data-live="{shown}"><section class="card"><h1>{shown}</h1><p>Not looked at yet.</p></section></div>'


def draw_pipeline(pipeline: PipelineModel) -> str:
    """What changes with each look."""
    shown = escape(pipeline.name)
    return f"""<div data-live="{shown}"><section class="card {pipeline.state}" aria-labelledby="p-{shown}">
<div class="title"><h1 id="p-{shown}">{shown}</h1>{_pill(pipeline.state)}
<p class="quiet">database {escape(pipeline.database)} · {escape(pipeline.raw_topic)} · epoch {pipeline.epoch or "–"}</p>
</div>
{_gate(pipeline)}
{_figures(pipeline)}
{_troubles(pipeline)}
</section>
<div class="panels"><section class="panel" aria-label="Slot forecast">{slot_panel(pipeline)}</section>
<section class="panel" aria-label="Lanes">{lanes_panel(pipeline.lanes)}</section></div></div>"""


def _gate(pipeline: PipelineModel) -> str:
    reader, slot, lag = pipeline.reader, pipeline.slot, pipeline.lag
    lanes = draw_lanes(pipeline.lanes)
    confirmed = (slot.confirmed_flush_lsn if slot else None) or reader.confirmed_lsn
    offset = "–" if reader.raw_offset is None else format_count(reader.raw_offset)
    held = pipeline.gate.holder
    word = "open" if pipeline.gate.is_open else f"held by {held}" if held else "unknown"
    return f"""<ol class="gate">
{_station("Source", reader.server_lsn or "–", "end of WAL")}
{_flow("read", lag.read)}
{_station("Raw topic", offset, f"offset · reader {reader.state}", reader.state == "running")}
{_flow("deliver", lag.deliver)}
<li class="station lanes"><h2>Lanes</h2><ul>{lanes}</ul></li>
{_flow("ack", None, word="acks")}
<li class="station sluices {"open" if pipeline.gate.is_open else "shut"}"><h2>Gate</h2>{_GATE}<p>{escape(word)}</p></li>
{_flow("confirm", lag.confirm)}
{_station("Slot", confirmed or "–", slot.wal_status or "no status" if slot else "not seen", slot is not None)}
</ol>"""


def _station(title: str, value: str, note: str, is_well: bool = True) -> str:
    mark = "" if is_well else " bad"
    return f"""<li class="station{mark}"><h2>{title}</h2><p class="value">{escape(value)}</p>
<p class="quiet">{escape(note)}</p></li>"""


def _flow(stage: str, lag: LagModel | None, word: str | None = None) -> str:
    """The stretch between two stations: still water when nothing is behind."""
    if word is None:
        word = "unknown" if lag is None else "level" if not lag.bytes else f"{format_bytes(lag.bytes)} behind"
    behind = " behind" if lag is not None and lag.seconds >= 1 else ""
    age = f'<span class="age">{format_seconds(lag.seconds)}</span>' if lag is not None and lag.seconds else ""
    spoken = f'<span class="sr">{stage} lag: </span>'
    return f'<li class="flow{behind}">{spoken}<span class="lag">{escape(word)}</span>{age}</li>'


def draw_lanes(lanes: Sequence[LaneModel]) -> str:
    """Those that are in trouble or furthest behind, and how many more there are: the panel below has them all."""
    if len(lanes) <= _LANES_DRAWN:
        return "".join(map(_lane, lanes))
    worst = sorted(lanes, key=lambda lane: (lane.state == Shown.RUNNING, -(lane.lag.seconds if lane.lag else 0)))
    left = worst[_LANES_DRAWN:]
    still = sum(lane.state != Shown.RUNNING for lane in left)
    word = f"{still} of them not running" if still else "all running"
    drawn = "".join(map(_lane, worst[:_LANES_DRAWN]))
    return f'{drawn}<li class="lane"><p class="quiet">and {len(left)} more, {word}</p></li>'


def _lane(lane: LaneModel) -> str:
    kind = "required" if lane.required else "best effort"
    behind = "–" if lane.lag is None else format_seconds(lane.lag.seconds)
    mark = "" if lane.state == "running" else " bad"
    return f"""<li class="lane{mark}"><p><b>{escape(lane.sink)}</b> <span class="quiet">{kind}</span></p>
<p class="quiet">{escape(lane.state)} · lag {behind} · p99 {format_latency(lane.latency_p99_seconds)}</p></li>"""


def _figures(pipeline: PipelineModel) -> str:
    slot, lanes = pipeline.slot, pipeline.lanes
    held = slot.wal_held_bytes if slot else None
    safe = slot.safe_wal_bytes if slot else None
    figures = (
        ("WAL held", "–" if held is None else format_bytes(held)),
        ("WAL still safe", "no limit" if safe is None else format_bytes(safe)),
        ("Behind in all", "–" if pipeline.lag.total is None else format_seconds(pipeline.lag.total.seconds)),
        ("Changes read", format_count(pipeline.reader.changes)),
        ("Events delivered", format_count(sum(lane.events for lane in lanes))),
    )
    return (
        '<dl class="figures">' + "".join(f"<div><dt>{n}</dt><dd>{escape(v)}</dd></div>" for n, v in figures) + "</dl>"
    )


def _troubles(pipeline: PipelineModel) -> str:
    failures = (pipeline.reader.failure, *(lane.failure for lane in pipeline.lanes))
    remedies = (failure.remedy for failure in failures if failure)
    items = [
        f"<li>{_pill(component.state)} <b>{escape(name)}</b> {escape(component.reason)} "
        f'<span class="quiet">since {component.since:%H:%M:%S} UTC</span></li>'
        for name, component in pipeline.components.items()
        if component.state is not State.UP
    ]
    return f'<ul class="troubles">{"".join(items)}{_notes(remedies)}</ul>' if items else ""


def _notes(texts: Iterable[str]) -> str:
    return "".join(f"<li>{escape(text)}</li>" for text in dict.fromkeys(texts) if text)


def _pill(state: State) -> str:
    return f'<span class="pill {state}">{state}</span>'
