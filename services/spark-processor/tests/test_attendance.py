"""When the driver believes that Redis has lost where a lane's writers stand."""

import pytest

from tidegate.position import BEGINNING
from tidegate_processor import attendance
from tidegate_processor.attendance import Attendance
from tidegate_processor.meeting import Arrival


@pytest.fixture(autouse=True)
def _no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that nobody has to wait for it; how long it is has a test of its own."""
    monkeypatch.setattr(attendance, "_GRACE_SECONDS", -1.0)


def arrival(incarnation: int = 7) -> bytes:
    return Arrival(incarnation, "topic", 5, BEGINNING).encode()


def seen(*looks: list[bytes]) -> bool:
    watched = Attendance()
    for look in looks:
        watched.look(look, 2, 7)
    return watched.is_forgotten


@pytest.mark.parametrize(
    ("looks", "is_forgotten"),
    [
        ([[arrival()]], False),
        ([[arrival(), arrival()]], False),
        ([[arrival(), arrival()], []], True),
        ([[arrival(), arrival()], [arrival()]], True),
        ([[arrival(), arrival()], [arrival(), arrival(6)]], True),
        ([[arrival(), arrival()], [arrival(), b"not one"]], True),
        ([[arrival(), arrival()], [arrival()], [arrival(), arrival()]], False),
        ([[arrival(6), arrival(6)], [arrival()]], False),
    ],
)
def test_one_that_was_there_and_is_missing_is_forgotten(looks: list[list[bytes]], is_forgotten: bool) -> None:
    assert seen(*looks) is is_forgotten


def test_whoever_still_works_has_time_to_say_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attendance, "_GRACE_SECONDS", 60.0)
    assert not seen([arrival(), arrival()], [])
