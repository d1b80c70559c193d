"""What sends spans, for whoever wants to look at them instead."""

from collections.abc import Sequence

from tidegate.observability.tracing import Span


class Kept:
    """In place of what sends spans."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.dropped = 0

    def give(self, spans: Sequence[Span]) -> None:
        self.spans += spans

    def drop(self, count: int, why: str) -> None:
        assert why
        self.dropped += count

    def named(self, name: str) -> list[Span]:
        return [each for each in self.spans if each.name == name]
