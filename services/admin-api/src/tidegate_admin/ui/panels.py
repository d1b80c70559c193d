"""What stands below a pipeline's gate: the slot's forecast, its lanes, its dead letters, its live events.

Invariant: every value passes `escape`; what the script fills in is empty here and says so without a script.
"""

from collections.abc import Iterable, Sequence
from html import escape

from tidegate_admin.dead_letters.entries import Entry
from tidegate_admin.pipelines.schemas import LaneModel, PipelineModel
from tidegate_admin.pipelines.service import Shown
from tidegate_admin.ui.snapshots import snapshots_panel
from tidegate_admin.ui.units import format_bytes, format_count, format_latency, format_seconds

_LONGEST_BAR = 100.0


def slot_panel(pipeline: PipelineModel) -> str:
    slot = pipeline.slot
    if slot is None:
        why = escape(pipeline.slot_unavailable or "It has not been looked at yet.")
        return f'<h2>Slot forecast</h2><p class="quiet">{why}</p>'
    held, safe = slot.wal_held_bytes or 0, slot.safe_wal_bytes
    share = _LONGEST_BAR * held / (held + safe) if safe is not None and held + safe > 0 else 0.0
    level = "bad" if share > 85 else "warn" if share > 50 else "good"
    rate = (
        f"{format_bytes(slot.wal_bytes_a_second)} a second" if slot.wal_bytes_a_second is not None else "not known yet"
    )
    rows = (
        ("Slot", f"{slot.name} · {slot.wal_status or 'no status'} · {'held' if slot.active else 'held by nobody'}"),
        ("WAL it keeps", format_bytes(held)),
        ("May still be written", "no limit is set" if safe is None else format_bytes(safe)),
        ("The source writes", rate),
    )
    return f"""<h2>Slot forecast</h2>
<p class="forecast {level}"><b>{escape(_forecast(slot.forecast_seconds, safe))}</b></p>
{"" if safe is None else _bar(share, level)}
<dl class="rows">{"".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in rows)}</dl>"""


def lanes_panel(lanes: Sequence[LaneModel]) -> str:
    rows = "".join(map(_lane, lanes))
    stand = sum(lane.state == Shown.PAUSED for lane in lanes)
    steer = [
        *(('<button type="button" data-steer="resume">Resume all</button>',) if stand else ()),
        *(('<button type="button" data-steer="pause">Pause all</button>',) if stand < len(lanes) else ()),
    ]
    return f"""<div class="bar-line"><h2>Lanes</h2>{"".join(steer)}</div>
<div class="scroll" tabindex="0" role="region" aria-label="Lanes, scrollable"><table class="lane-list">
<thead><tr><th scope="col">Lane</th><th scope="col">State</th><th scope="col">Acked</th><th scope="col">Behind</th>
<th scope="col">p99</th><th scope="col" class="number">Events</th><th><span class="sr">Actions</span></th></tr></thead>
<tbody>{rows}</tbody></table></div>"""


def fixed_panels(name: str) -> str:
    """What is fetched once it is looked at; the script finds its places by data-… ."""
    shown = escape(name)
    return f"""<section class="panel" aria-labelledby="l-{shown}" data-letters="{shown}">
<div class="bar-line"><h2 id="l-{shown}">Dead letters</h2><button type="button" data-refresh>Refresh</button></div>
<div data-list><p class="quiet">Looking…</p></div></section>
{snapshots_panel(name)}
<section class="panel" aria-labelledby="e-{shown}" data-events="{shown}">
<div class="bar-line"><h2 id="e-{shown}">Live events</h2>
<label class="sr" for="f-{shown}">Only these tables</label>
<input id="f-{shown}" data-table placeholder="schema.table or schema.*" autocomplete="off" spellcheck="false">
<button type="button" data-follow aria-pressed="false">Follow</button></div>
<p class="quiet" data-note role="status">Not followed. Rows take the scope data.</p>
<ol class="feed" data-feed></ol></section>"""


def letters_list(
    total: int, entries: Iterable[Entry], groups: Iterable[tuple[str, str, str, int]] = (), *, is_complete: bool
) -> str:
    """`groups`: lane, code, table and how many; what may be done to all of one cause at once."""
    rows = "".join(map(_letter, entries))
    kinds = "".join(_group(*group) for group in groups)
    building = "" if is_complete else '<p class="quiet">The index is still being built.</p>'
    if not rows:
        return f'{building}<p class="none">None. Everything that was read could be delivered.</p>'
    together = f'<ul class="groups" aria-label="All of one cause">{kinds}</ul>' if kinds else ""
    return f"""{building}{together}<p class="quiet">{format_count(total)} open, the newest first</p>
<ul class="letters">{rows}</ul>"""


def _group(lane: str, code: str, table: str, letters: int) -> str:
    shown = f'<span class="sr"> {escape(code)} of {escape(lane)} in {escape(table)}</span>'
    return f"""<li data-lane="{escape(lane)}" data-code="{escape(code)}" data-of-table="{escape(table)}"
 data-count="{letters}"><div><b>{format_count(letters)} × {escape(code)}</b> <span class="tag">{escape(lane)}</span>
<p class="quiet">{escape(table)}</p></div><div class="buttons">
<button type="button" data-replay-all>Replay all{shown}</button>
<button type="button" class="danger" data-purge-all>Give up all{shown}</button></div></li>"""


def _letter(entry: Entry) -> str:
    identity = escape(entry.id)
    return f"""<li><div><b>{escape(entry.code)}</b> <span class="tag">{escape(entry.lane)}</span>
<p>{escape(entry.operation)} in {escape(entry.channel)}</p><p class="quiet">{escape(entry.message)}</p></div>
<div class="buttons"><button type="button" data-show="{identity}">Show<span class="sr"> {identity}</span></button>
<button type="button" data-replay="{identity}">Replay<span class="sr"> {identity}</span></button>
<button type="button" class="danger" data-purge="{identity}">Give up<span class="sr"> {identity}</span></button>
</div></li>"""


def _bar(share: float, level: str) -> str:
    return f"""<svg class="bar {level}" viewBox="0 0 100 4" preserveAspectRatio="none" role="img"
 aria-label="{share:.0f} % of the WAL that may be kept"><rect class="all" width="100" height="4" rx="2"/>
<rect class="part" width="{share:.1f}" height="4" rx="2"/></svg>"""


def _lane(lane: LaneModel) -> str:
    mark = "" if lane.state == Shown.RUNNING else ' class="bad"'
    behind = "–" if lane.lag is None else format_seconds(lane.lag.seconds)
    frames = f" · {format_count(lane.lag_frames)} frames" if lane.lag_frames else ""
    name, kind = escape(lane.sink), escape(lane.type) + ("" if lane.required else ", best effort")
    what, word = ("resume", "Resume") if lane.state in (Shown.PAUSED, Shown.FAILED) else ("pause", "Pause")
    return f"""<tr{mark}><th scope="row">{name}<span class="quiet">{kind}</span></th>
<td data-label="State">{escape(lane.state)}</td><td class="mono" data-label="Acked">{escape(lane.acked_lsn or "–")}</td>
<td data-label="Behind">{behind}{frames}</td><td data-label="p99">{format_latency(lane.latency_p99_seconds)}</td>
<td class="number" data-label="Events">{format_count(lane.events)}</td><td class="act"><button type="button"
 data-steer="{what}" data-lane="{name}">{word}<span class="sr"> {name}</span></button></td></tr>"""


def _forecast(seconds: float | None, safe: int | None) -> str:
    if safe is None:
        return "No limit is set: the slot cannot be lost, the disk can fill"
    if seconds is None:
        return "Nothing is written: no end in sight"
    return f"Safe for {format_seconds(seconds)} if nothing were confirmed any more"
