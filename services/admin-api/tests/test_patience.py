"""Connections are ended for what they do not say, never while they are used."""

from types import SimpleNamespace
from typing import Any

from tidegate_admin.connections import HEAD_SECONDS, MOST_WAITING, Patience


class Connection:
    def __init__(self) -> None:
        self.is_reset = False
        self.transport = SimpleNamespace(abort=self._reset)
        self.cycle: Any = None

    def _reset(self) -> None:
        self.is_reset = True

    def answers(self) -> None:
        self.cycle = SimpleNamespace(response_complete=True)


def test_a_connection_whose_requests_are_shorter_than_a_look_is_not_reset() -> None:
    """At each look it waited for a request, and it was taken for one that had waited all the time."""
    connection, patience = Connection(), Patience()
    for second in range(3 * int(HEAD_SECONDS)):
        connection.answers()
        patience.sweep([connection], float(second))
    assert not connection.is_reset


def test_a_connection_that_says_nothing_more_is_ended() -> None:
    for has_asked in (False, True):
        connection, patience = Connection(), Patience()
        if has_asked:
            connection.answers()
        patience.sweep([connection], 0.0)
        patience.sweep([connection], HEAD_SECONDS)
        assert not connection.is_reset
        patience.sweep([connection], HEAD_SECONDS + 1)
        assert connection.is_reset


def test_in_a_rush_nobody_is_ended_before_its_request_could_be_read() -> None:
    """The first caller of many that came at once was reset, with its request in the kernel's hands."""
    patience, early, late = Patience(), Connection(), [Connection() for _ in range(MOST_WAITING)]
    patience.sweep([early, *late], 0.0)
    assert not early.is_reset
    early.answers()
    patience.sweep([early, *late], 0.1)
    assert [early.is_reset, sum(each.is_reset for each in late)] == [False, 1]
