"""Event ids are the same for ever, of version 7 shape, and never meet; times are RFC 3339."""

from datetime import UTC, datetime
from uuid import RFC_4122, UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import DecodeError
from tidegate.events import POSTGRES_EPOCH_UNIX_US, EventIds, event_id, format_time
from tidegate.lsn import Lsn

SYSTEM = 7412345678901234567
COMMIT_TIME = 847_812_345_678_901

u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)


def _id(**changed: int) -> str:
    told = {"system_id": SYSTEM, "commit_lsn": 0x16B3748, "xid": 750, "commit_time": COMMIT_TIME, "ordinal": 0}
    return event_id(**{**told, **changed})  # type: ignore[arg-type]


def test_an_id_is_the_same_for_ever() -> None:
    """A change of these literals would break every consumer that remembers ids."""
    assert _id() == "01a1d05d-6b4e-7cc8-97b6-75c29a60c976"
    assert _id(ordinal=1) == "01a1d05d-6b4e-7cc8-b5ed-ef7c19ab458b"


@given(system_id=u64, commit_lsn=u64, xid=u32, commit_time=i64, ordinal=st.integers(0, 2**40 - 1))
def test_an_id_is_a_uuid_of_version_7(
    system_id: int, commit_lsn: int, xid: int, commit_time: int, ordinal: int
) -> None:
    uuid = UUID(_id(system_id=system_id, commit_lsn=commit_lsn, xid=xid, commit_time=commit_time, ordinal=ordinal))

    assert uuid.version == 7
    assert uuid.variant == RFC_4122


def test_an_id_begins_with_the_commit_time_in_milliseconds() -> None:
    milliseconds = (COMMIT_TIME + POSTGRES_EPOCH_UNIX_US) // 1000

    assert milliseconds == UUID(_id()).int >> 80


@pytest.mark.parametrize(
    "changed",
    [{"system_id": 1}, {"commit_lsn": 1}, {"xid": 1}, {"commit_time": COMMIT_TIME + 1}, {"ordinal": 1}, {"sub": 1}],
    ids=str,
)
def test_every_part_of_a_change_is_in_its_id(changed: dict[str, int]) -> None:
    assert _id() != _id(**changed)


def test_no_two_events_of_a_transaction_share_an_id() -> None:
    ids = EventIds(system_id=SYSTEM, commit_lsn=Lsn(1), xid=1, commit_time=COMMIT_TIME)

    assert len({ids.id(ordinal, sub) for ordinal in range(10_000) for sub in range(4)}) == 40_000


@given(i64)
def test_a_time_is_rfc_3339_in_utc_or_refused(microseconds: int) -> None:
    try:
        text = format_time(microseconds)
    except DecodeError:
        # The years 1 to 9999, in microseconds around 2000.
        assert not -63_082_281_600_000_000 <= microseconds < 252_455_616_000_000_000
    else:
        moment = datetime.fromisoformat(text)
        assert moment.tzinfo is UTC
        assert microseconds == (moment - datetime(2000, 1, 1, tzinfo=UTC)) // (moment.resolution)


def test_a_whole_second_has_six_decimals_too() -> None:
    assert format_time(0) == "2000-01-01T00:00:00.000000Z"
