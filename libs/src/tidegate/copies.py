"""How many copies a topic has that we create, and how many of them a record needs before it counts.

| `replication_factor` | copies | in sync |
| --- | --- | --- |
| not given | the brokers' own: `default.replication.factor` | the brokers' own: `min.insync.replicas` |
| 1, 2 | so many | the brokers' own |
| 3 or more | so many | two: what one disk alone holds is nothing for which the source may forget it |
"""

from collections.abc import Mapping

BROKERS_OWN = -1
_ENOUGH_FOR_TWO = 3


def copies(replication_factor: int | None) -> int:
    return BROKERS_OWN if replication_factor is None else replication_factor


def in_sync(replication_factor: int | None) -> Mapping[str, str]:
    """As a topic's settings."""
    is_enough = replication_factor is not None and replication_factor >= _ENOUGH_FOR_TWO
    return {"min.insync.replicas": "2"} if is_enough else {}
