"""Plots as SVG, written by hand: bars with their spread, and lines over a logarithmic axis.

Readable on a light and on a dark page, with every value as text. Invariant: equal input gives equal bytes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 760
LABEL_WIDTH = 210
BAR_HEIGHT, BAR_STEP, TITLE_HEIGHT = 18, 26, 44
VALUE_WIDTH = 120
COLOURS = ("#0f766e", "#14b8a6", "#b45309", "#f59e0b", "#6b7280", "#7c3aed", "#dc2626")
STYLE = (
    "<style>text{font:13px system-ui,sans-serif;fill:#1f2937}.t{font-weight:600;font-size:15px}.s{fill:#6b7280;"
    "font-size:12px}.w{stroke:#1f2937;stroke-width:1.5}.g{stroke:#9ca3af;stroke-width:.5}"
    "@media(prefers-color-scheme:dark){text{fill:#e5e7eb}.s{fill:#9ca3af}.w{stroke:#e5e7eb}}</style>"
)


@dataclass(frozen=True, slots=True)
class Bar:
    label: str
    values: tuple[float, ...]
    """One a round."""
    colour: int = 0

    @property
    def middle(self) -> float:
        return sorted(self.values)[len(self.values) // 2]


def bars(title: str, unit: str, rows: Sequence[Bar]) -> str:
    """Lengths from zero; a line through the end of a bar spans the rounds."""
    most = max((max(row.values) for row in rows), default=1.0) or 1.0
    room = WIDTH - LABEL_WIDTH - VALUE_WIDTH
    parts = _title(title, unit)
    for at, row in enumerate(rows):
        top = TITLE_HEIGHT + at * BAR_STEP
        length, low, high = (each / most * room for each in (row.middle, min(row.values), max(row.values)))
        middle = top + BAR_HEIGHT / 2
        parts += [
            f'<text x="{LABEL_WIDTH - 8}" y="{middle + 4:.1f}" text-anchor="end">{escape(row.label)}</text>',
            f'<rect x="{LABEL_WIDTH}" y="{top}" width="{max(length, 1):.1f}" height="{BAR_HEIGHT}" rx="2"'
            f' fill="{COLOURS[row.colour % len(COLOURS)]}"/>',
            f'<line class="w" x1="{LABEL_WIDTH + low:.1f}" x2="{LABEL_WIDTH + high:.1f}" y1="{middle}" y2="{middle}"/>',
            f'<text x="{LABEL_WIDTH + max(length, high) + 8:.1f}" y="{middle + 4:.1f}">{number(row.middle)}</text>',
        ]
    return _document(TITLE_HEIGHT + len(rows) * BAR_STEP + 8, parts)


@dataclass(frozen=True, slots=True)
class Line:
    label: str
    points: tuple[tuple[float, float], ...]


def lines(title: str, x_name: str, unit: str, series: Sequence[Line]) -> str:
    """x logarithmic, y from zero."""
    height, left, right, top = 300, 60, WIDTH - 170, TITLE_HEIGHT
    bottom = height - 40
    xs = sorted({x for line in series for x, _ in line.points})
    most = max((y for line in series for _, y in line.points), default=1.0) or 1.0
    span = math.log(xs[-1] / xs[0]) or 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        return left + math.log(x / xs[0]) / span * (right - left), bottom - y / most * (bottom - top)

    parts = _title(title, unit)
    for share in (0.0, 0.5, 1.0):
        _, y = place(xs[0], most * share)
        parts.append(f'<line class="g" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="s" x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{number(most * share)}</text>')
    for value in xs:
        x, _ = place(value, 0)
        parts.append(f'<text class="s" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{number(value)}</text>')
    parts.append(f'<text class="s" x="{right}" y="{height - 6}" text-anchor="end">{escape(x_name)}</text>')
    for at, line in enumerate(series):
        colour = COLOURS[at % len(COLOURS)]
        placed = [place(x, y) for x, y in line.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in placed]
        parts.append(
            f'<text x="{right + 12}" y="{top + 16 + at * 20}" style="fill:{colour}">{escape(line.label)}</text>'
        )
    return _document(height, parts)


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def _title(title: str, unit: str) -> list[str]:
    return [
        f'<text class="t" x="0" y="16">{escape(title)}</text>',
        f'<text class="s" x="0" y="34">{escape(unit)}</text>',
    ]


def _document(height: float, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img">'
    return "\n".join([head, STYLE, *parts, "</svg>"]) + "\n"
