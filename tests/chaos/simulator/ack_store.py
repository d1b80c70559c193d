"""Redis as the ack store sees it: production values, production callers, compared by the production rule.

The script's own text is tested against a real server (test of the ack store); here `checkpoint.store.compare` stands
for it, which that test proves to be the same.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import redis
from chaos.simulator.memory import remembered_ack

from tidegate.checkpoint.store import AckOutcome, compare
from tidegate.contracts.ack import Ack
from tidegate.contracts.names import lane_control_key
from tidegate.errors import DecodeError

_SNAPSHOTS_KEPT = 12
_CONTROL = lane_control_key("", "").rpartition(":")[2]


@dataclass(frozen=True, slots=True)
class Copied:
    hashes: dict[str, dict[bytes, bytes]]
    told: dict[str, bytes]


class Redis:
    """Answers both the reader's awaited calls and the lanes' plain ones."""

    def __init__(
        self,
        accepted: Callable[[Ack], None],
        said: Callable[[str, bytes], None] = lambda *_: None,
        recorded: Callable[[bytes], None] = lambda _: None,
    ) -> None:
        """`said`: a value was set; `recorded`: an audit record was added."""
        self.is_up = True
        self._said, self._recorded = said, recorded
        self.mixes_next: random.Random | None = None
        self.has_forgotten = False
        self._hashes: dict[str, dict[bytes, bytes]] = {}
        self._values: dict[str, bytes] = {}
        self._snapshots: list[Copied] = []
        self._accepted = accepted

    async def __aenter__(self) -> "Redis":
        return self

    async def __aexit__(self, *_: object) -> None:
        return

    async def hgetall(self, key: str) -> dict[bytes, bytes]:
        self._check()
        stored = dict(self._hashes.get(key, {}))
        dice, self.mixes_next = self.mixes_next, None
        if dice is not None:
            values = [value for each in self._hashes.values() for value in each.values()]
            stored = {field: dice.choice(values) for field in stored}
        return stored

    def hget(self, key: str, field: str) -> bytes | None:
        self._check()
        return self._hashes.get(key, {}).get(field.encode())

    def get(self, key: str) -> bytes | None:
        self._check()
        return self._values.get(key)

    def seen(self, key: str) -> bytes | None:
        """For the world to look, not for the code under test."""
        return self._values.get(key)

    def set(self, key: str, value: bytes) -> None:
        self._check()
        if self._values.get(key) != value:
            self._said(key, value)
        self._values[key] = value

    async def xadd(self, key: str, fields: dict[str, bytes], **_: object) -> None:
        self._check()
        self._recorded(fields["entry"])

    def eval(self, script: str, keys: int, key: str, *arguments: Any) -> tuple[bytes, bytes]:
        self._check()
        sink, value, disbelieved, _channel = arguments
        stored = self._hashes.setdefault(key, {}).get(sink.encode())
        new = _read(value)
        old = _read(stored) if stored and stored != disbelieved else None
        outcome = compare(old, new) if new is not None else AckOutcome.FOREIGN
        if outcome is AckOutcome.ACCEPTED and new is not None:
            self._hashes[key][sink.encode()] = value
            self._accepted(new)
        return outcome.value.encode(), value if stored is None else stored

    def tells(self) -> list[Ack]:
        """All that it still knows."""
        read = [_read(value) for each in self._hashes.values() for value in each.values()]
        return [ack for ack in read if ack is not None]

    def copied(self) -> Copied:
        """Acks, and what lanes were told. The lineage is said anew each second."""
        told = {key: value for key, value in self._values.items() if key.endswith(_CONTROL)}
        return Copied(_copy(self._hashes), told)

    def set_back(self, copied: Copied) -> None:
        others = {key: value for key, value in self._values.items() if not key.endswith(_CONTROL)}
        self._hashes, self._values = _copy(copied.hashes), others | copied.told

    def save(self) -> None:
        self._snapshots = [*self._snapshots, self.copied()][-_SNAPSHOTS_KEPT:]

    def roll_back(self, dice: random.Random) -> None:
        if self._snapshots:
            self.set_back(dice.choice(self._snapshots))
            self.has_forgotten = True

    def lose_everything(self) -> None:
        self._hashes.clear()
        self._values.clear()
        self.has_forgotten = True

    def _check(self) -> None:
        if not self.is_up:
            raise redis.ConnectionError("the model is down")


class Line:
    """One client's connection: it may be cut while Redis and everybody else's lives."""

    def __init__(self, server: Redis) -> None:
        self.is_cut = False
        self._server = server

    def __getattr__(self, name: str) -> Any:
        if self.is_cut:
            raise redis.ConnectionError("this connection is cut")
        return getattr(self._server, name)


def _copy(hashes: dict[str, dict[bytes, bytes]]) -> dict[str, dict[bytes, bytes]]:
    return {key: dict(values) for key, values in hashes.items()}


@lru_cache(2048)
def _read(value: bytes) -> Ack | None:
    document = json.loads(value)
    try:
        ack: Ack = remembered_ack(value, sink=document["sink"], generation=document["generation"])
    except DecodeError:
        return None
    return ack
