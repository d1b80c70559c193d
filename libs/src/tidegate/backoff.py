"""How long to wait before the next start: doubling, forgotten after a healthy life."""

from dataclasses import dataclass


@dataclass(slots=True)
class Backoff:
    first_seconds: float
    longest_seconds: float
    healthy_seconds: float
    """Who lived this long has recovered; the next failure is a new one."""
    _seconds: float = 0.0

    def after(self, lived_seconds: float) -> float:
        grown = min(self._seconds * 2, self.longest_seconds)
        self._seconds = self.first_seconds if lived_seconds >= self.healthy_seconds or not grown else grown
        return self._seconds

    def forget(self) -> None:
        self._seconds = 0.0
