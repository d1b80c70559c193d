"""Figures for people: short, with a unit, the same on the page and in the terminal."""

_BYTES = ("B", "kB", "MB", "GB", "TB")


def format_bytes(value: float) -> str:
    for unit in _BYTES[:-1]:
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} {_BYTES[-1]}"


def format_seconds(value: float) -> str:
    if value <= 0:
        return "0 s"
    if value < 60:
        return f"{value:.1f} s"
    if value < 3600:
        return f"{value / 60:.0f} min"
    return f"{value / 3600:.1f} h"


def format_latency(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{seconds * 1000:.0f} ms" if seconds < 10 else format_seconds(seconds)


def format_count(value: int) -> str:
    return f"{value:,}".replace(",", "\u202f")
