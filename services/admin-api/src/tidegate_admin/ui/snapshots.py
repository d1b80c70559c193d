"""The page's snapshots: how far each is, and what may be asked of it.

Invariant: every value passes `escape`; a state is told by a word, never by colour alone.
"""

from collections.abc import Iterable
from html import escape

from tidegate.contracts.snapshot_status import SnapshotState, SnapshotStatus
from tidegate_admin.ui.units import format_bytes, format_count, format_seconds

_ACTIONS = {
    SnapshotState.WAITING: ("pause", "cancel"),
    SnapshotState.RUNNING: ("pause", "cancel"),
    SnapshotState.PAUSED: ("resume", "cancel"),
    SnapshotState.FAILED: ("resume",),
}
_WORDS = {"pause": "Pause", "resume": "Resume", "cancel": "End"}


def snapshots_panel(name: str) -> str:
    shown = escape(name)
    return f"""<section class="panel" aria-labelledby="s-{shown}" data-snapshots="{shown}">
<div class="bar-line"><h2 id="s-{shown}">Snapshots</h2><button type="button" data-start>Start</button></div>
<div data-list><p class="quiet">Looking…</p></div></section>"""


def snapshots_list(found: Iterable[SnapshotStatus]) -> str:
    items = "".join(map(_snapshot, found))
    if not items:
        return '<p class="none">None has been taken.</p>'
    return f'<ul class="letters snapshots">{items}</ul>'


def _snapshot(found: SnapshotStatus) -> str:
    identity, percent = escape(found.id), min(max(found.percent, 0.0), 100.0)
    figures = (
        f"{format_count(found.rows)} rows · {format_bytes(found.bytes)} · {found.tables_done} of {found.tables} tables"
    )
    trouble = found.message or (f"waits for {found.waits_for}" if found.waits_for else "")
    buttons = "".join(
        f'<button type="button" data-ask="{what}" data-of="{identity}">{_WORDS[what]}'
        f'<span class="sr"> {identity}</span></button>'
        for what in _ACTIONS.get(found.state, ())
    )
    level = "bad" if found.state is SnapshotState.FAILED else "warn" if found.state is SnapshotState.PAUSED else "good"
    return f"""<li><div><b>{escape(found.state)} · {percent:.1f} %</b> <span class="tag">{escape(found.kind)}</span>
<svg class="bar {level}" viewBox="0 0 100 4" preserveAspectRatio="none" role="progressbar" aria-valuemin="0"
 aria-valuemax="100" aria-valuenow="{percent:.0f}" aria-label="{percent:.0f} % read"><rect class="all" width="100"
 height="4" rx="2"/><rect class="part" width="{percent:.1f}" height="4" rx="2"/></svg>
<p>{escape(figures)}{_pace(found)}</p>
<p class="quiet">{identity[:8]} · by {escape(found.by)}{f" · {escape(trouble)}" if trouble else ""}</p></div>
<div class="buttons">{buttons}</div></li>"""


def _pace(found: SnapshotStatus) -> str:
    if found.state is not SnapshotState.RUNNING:
        return ""
    left = "" if found.seconds_left is None else f" · {format_seconds(found.seconds_left)} left"
    return f" · {format_count(round(found.rows_per_second))} rows a second{left}"
