"""How the preflight asks the source: the caller brings the connection."""

from collections.abc import Mapping, Sequence
from typing import Any, LiteralString, Protocol


class Ask(Protocol):
    """Runs one query, autocommit; parameters as psycopg takes them."""

    async def __call__(
        self, query: LiteralString, parameters: Sequence[object] | Mapping[str, object] = (), /
    ) -> list[tuple[Any, ...]]: ...
