"""A transaction is looked for within bounds, however the log looks."""

import asyncio
from dataclasses import dataclass

import pytest
from kit.frames import RawLog, row

from tidegate_admin.errors import ApiError
from tidegate_admin.frames import search
from tidegate_admin.frames.raw import Bounds, Record
from tidegate_admin.frames.search import Found, find_xid


@dataclass
class Log:
    """`begin`, then one frame again and again: a topic as long as a test wants."""

    begin: list[bytes]
    rest: bytes
    end: int
    seconds_a_read: float = 0
    seen: int = 0
    now: float = 0

    async def read(self, offset: int, count: int, *, wait_seconds: float = 0) -> list[Record]:
        assert wait_seconds > 0
        self.now += self.seconds_a_read
        offsets = range(offset, min(offset + count, self.end))
        self.seen += len(offsets)
        return [Record(at, 0, None, self.begin[at] if at < len(self.begin) else self.rest) for at in offsets]

    def find(self, xid: int) -> Found | None:
        return asyncio.run(find_xid(self, Bounds(0, self.end), xid))  # type: ignore[arg-type]


def quiet_log(end: int, seconds_a_read: float = 0) -> Log:
    """A transaction in its beginning, and none ever after."""
    log = RawLog()
    log.epoch()
    log.transaction(row(1))
    log.tick()
    return Log(log.frames[:-1], log.frames[-1], end, seconds_a_read)


def test_a_transaction_before_a_quiet_stretch_is_found() -> None:
    found = quiet_log(3000).find(700)
    assert found is not None
    assert found.offset == 1


def test_a_log_without_transactions_is_not_read_through() -> None:
    log = quiet_log(10_000_000)
    with pytest.raises(ApiError) as caught:
        log.find(700)
    assert (caught.value.code, caught.value.http_status) == ("TRANSACTION_UNKNOWN", 404)
    assert log.seen <= search.MOST_FRAMES


def test_a_slow_log_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    log = quiet_log(10_000_000, seconds_a_read=1)
    monkeypatch.setattr(search, "monotonic", lambda: log.now)
    with pytest.raises(ApiError) as caught:
        log.find(700)
    assert caught.value.code == "TRANSACTION_UNKNOWN"
    assert log.now <= search.SECONDS
