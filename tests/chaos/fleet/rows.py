"""Rows that a snapshot reads while the load flows: which of them have to arrive.

What each of them must look like is told by the mirror at the place where it stands; this is about those that do not
arrive at all.

Invariant: only a row that nobody touched between two barriers is missed; of all others the stream tells.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from chaos.fleet import tables
from chaos.fleet.deliveries import Arrived
from chaos.fleet.mirror import Mirror, Row, key_of, text_of


@dataclass(frozen=True, slots=True)
class Read:
    """A table that a snapshot has read to its end since the last barrier."""

    table: str
    is_asked_for: Callable[[Row], bool]
    """What the snapshot's filters say of a row."""


def missed(reads: Sequence[Read], mirror: Mirror, arrived: Sequence[Arrived]) -> list[str]:
    """`mirror` as it was at the last barrier, `arrived` since then."""
    return [
        f"{read.table}: {count} of the rows that a snapshot read did not arrive"
        for read in reads
        if (count := _count(read, mirror, [each for each in arrived if each.table == read.table]))
    ]


def _count(read: Read, mirror: Mirror, arrived: Sequence[Arrived]) -> int:
    if any(each.kind == "TRUNCATE" for each in arrived):
        return 0
    key = tables.KEYS[read.table]
    rows = [each.event["payload"]["row"] for each in arrived if each.is_row]
    if not key:
        wanted = Counter(text_of(row) for row in mirror.whole() if read.is_asked_for(row))
        return len((wanted - Counter(_touched_texts(arrived))).keys() - {text_of(row) for row in rows})
    standing = {each for each, row in mirror.standing(read.table) if read.is_asked_for(row)}
    return len(standing - set(_touched(key, arrived)) - {key_of(key, row) for row in rows})


def _touched(key: tuple[str, ...], arrived: Iterable[Arrived]) -> Iterator[object]:
    for each in arrived:
        if not each.is_row:
            payload = each.event["payload"]
            yield from (key_of(key, row) for row in (payload["old"], payload["row"]) if row is not None)


def _touched_texts(arrived: Iterable[Arrived]) -> Iterator[str]:
    for each in arrived:
        if not each.is_row:
            yield from (text_of(row) for row in (each.event["payload"]["old"],) if row is not None)
