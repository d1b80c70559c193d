"""A transaction is looked for within bounds, however the log looks."""

import asyncio
import random
from dataclasses import dataclass, field

import pytest
from kit.frames import RawLog, row

from tidegate.contracts.frame import decode_frame, decode_header
from tidegate.lsn import Lsn
from tidegate_admin.errors import ApiError
from tidegate_admin.frames import search
from tidegate_admin.frames.decoded import transactions
from tidegate_admin.frames.raw import Bounds, Record
from tidegate_admin.frames.search import Found, Known, find_lsn, find_xid


@dataclass
class Log:
    """`begin`, then one frame again and again: a topic as long as a test wants."""

    begin: list[bytes]
    rest: bytes
    end: int
    seconds_a_read: float = 0
    seen: int = 0
    looks: int = 0
    now: float = 0
    known: Known = field(default_factory=Known)

    async def read(self, offset: int, count: int, *, wait_seconds: float = 0) -> list[Record]:
        assert wait_seconds > 0
        self.now += self.seconds_a_read
        offsets = range(offset, min(offset + count, self.end))
        self.seen += len(offsets)
        self.looks += 1
        return [Record(at, 0, None, self.begin[at] if at < len(self.begin) else self.rest) for at in offsets]

    def find(self, xid: int) -> Found | None:
        return asyncio.run(find_xid(self, Bounds(0, self.end), xid, self.known))  # type: ignore[arg-type]


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
        log.find(701)
    assert (caught.value.code, caught.value.http_status) == ("TRANSACTION_UNKNOWN", 404)
    assert log.seen <= search.MOST_FRAMES


def test_a_slow_log_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    log = quiet_log(10_000_000, seconds_a_read=1)
    monkeypatch.setattr(search, "monotonic", lambda: log.now)
    with pytest.raises(ApiError) as caught:
        log.find(701)
    assert caught.value.code == "TRANSACTION_UNKNOWN"
    assert log.now <= search.SECONDS


def busy_log(transactions: int) -> RawLog:
    """Bursts and pauses: ticks between, some transactions in two frames, LSNs that leap."""
    chance, xids = random.Random(8), [*range(2**32 - 25, 2**32), *range(3, 300)]
    log = RawLog()
    log.epoch()
    for number in range(transactions):
        log.safe_lsn = Lsn(log.safe_lsn + chance.choice((0, 0, 16, 2**24)))
        log.transaction(row(number), xid=xids[number])
        for _ in range(chance.choice((0, 0, 0, 30))):
            log.tick()
    return log


@pytest.fixture
def short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_BATCH", 3)
    monkeypatch.setattr(search, "WINDOW_BEFORE", 6)


@pytest.mark.usefixtures("short_looks")
def test_every_lsn_is_found_where_it_is() -> None:
    """As by reading the log from its beginning: at, before and behind where each frame ends."""
    frames = busy_log(60).frames
    log = Log(frames, b"", len(frames))
    ends = [search.reaches(decode_header(frame)) for frame in frames]
    for lsn in {Lsn(end + by) for end in ends for by in (-1, 0, 1)}:
        found = asyncio.run(find_lsn(log, Bounds(0, len(frames)), lsn, log.known))  # type: ignore[arg-type]
        expected = next((at for at, end in enumerate(ends) if end >= lsn), None)
        assert (found and found.offset) == expected


@pytest.mark.usefixtures("short_looks")
def test_every_transaction_is_found_also_where_their_numbers_wrap_around() -> None:
    frames = busy_log(60).frames
    log = Log(frames, b"", len(frames))
    for offset, frame in enumerate(frames):
        for xid, commit_lsn in transactions(decode_frame(frame)):
            found = log.find(xid)
            assert found is not None
            assert (offset, commit_lsn) == (found.offset, found.commit_lsn)


def test_a_few_looks_find_it_in_a_long_log() -> None:
    """Of 5,000 frames; by halving alone it takes twelve."""
    written = RawLog()
    for number in range(5_000):
        written.transaction(row(number), xid=700 + number)
    log = Log(written.frames, b"", 5_000)
    found = log.find(700 + 1_666)
    assert found is not None
    assert found.offset == 1_666
    assert log.looks <= 5


def test_what_was_seen_once_is_found_at_a_look() -> None:
    written = RawLog()
    for number in range(5_000):
        written.transaction(row(number), xid=700 + number)
    log = Log(written.frames, b"", 5_000)
    log.find(700 + 1_666)
    log.looks = 0
    found = log.find(700 + 3_210)
    assert found is not None
    assert found.offset == 3_210
    assert log.looks == 1


def test_landmarks_of_a_topic_that_is_another_one_now_mislead_nobody() -> None:
    """It was deleted and made again: what was remembered of it points anywhere."""
    written = RawLog()
    for number in range(1_000):
        written.transaction(row(number), xid=700 + number)
    log = Log(written.frames, b"", 1_000)
    chance = random.Random(8)
    for number in range(0, 1_000, 7):
        log.known.xids.keep([(chance.randrange(2_000), 700 + chance.randrange(1_000))])
        found = log.find(700 + number)
        assert found is not None
        assert found.offset == number
