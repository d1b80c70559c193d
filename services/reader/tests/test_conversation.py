"""The replication conversation driven by hand: it says what it waits for, and never spins or waits itself."""

from collections.abc import Generator
from typing import Any

import pytest
from psycopg import OperationalError, pq
from psycopg.waiting import Ready, Wait

from tidegate.errors import ConfigError, StreamError, TransientError
from tidegate_reader.sources.postgres_wal import conversation
from tidegate_reader.sources.postgres_wal.failures import refused_command, refused_connection

NOTHING = (0, memoryview(b""))


class Result:
    def __init__(self, status: pq.ExecStatus, state: bytes = b"", text: bytes = b"") -> None:
        self.status, self._state, self._text = status, state, text
        self.nfields = self.ntuples = 0

    def error_field(self, field: pq.DiagnosticField) -> bytes:
        return self._state if field is pq.DiagnosticField.SQLSTATE else self._text


class Link:
    """libpq as far as a conversation sees it: what each call answers is written down beforehand."""

    def __init__(
        self, *, copies: list[Any] = (), puts: list[int] = (), flushes: list[int] = (), results: Any = ()
    ) -> None:
        self.copies, self.puts, self.flushes = list(copies), list(puts), list(flushes)
        self.results = list(results)
        self.consumed = 0
        self.busy: list[bool] = []

    def consume_input(self) -> None:
        self.consumed += 1

    def get_copy_data(self, asynchronous: int) -> tuple[int, memoryview]:
        assert asynchronous == 1
        answer = self.copies.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def put_copy_data(self, data: bytes) -> int:
        return self.puts.pop(0)

    put_copy_end = put_copy_data

    def send_query(self, command: bytes) -> None:
        self.sent = command

    def flush(self) -> int:
        return self.flushes.pop(0) if self.flushes else 0

    def is_busy(self) -> bool:
        return self.busy.pop(0) if self.busy else False

    def get_result(self) -> Result | None:
        return self.results.pop(0) if self.results else None


def drive(generator: Generator[Wait, Ready, Any], answers: list[Ready]) -> tuple[list[Wait], Any]:
    waits = []
    try:
        waits.append(next(generator))
        for ready in answers:
            waits.append(generator.send(ready))
    except StopIteration as stop:
        return waits, stop.value
    pytest.fail(f"it waits for more than it was given: {waits}")


def data(text: bytes) -> tuple[int, memoryview]:
    return len(text), memoryview(text)


def test_a_drain_takes_everything_in_one_go() -> None:
    link = Link(copies=[data(b"a"), data(b"bc"), NOTHING])
    assert [bytes(each) for each in conversation.drain(link)] == [b"a", b"bc"]
    assert link.consumed == 1


def test_a_drained_link_says_so() -> None:
    assert conversation.drain(Link(copies=[NOTHING])) == []


@pytest.mark.parametrize("end", [OperationalError("server closed the connection"), (-1, memoryview(b""))])
def test_an_ended_stream_is_worth_another_try(end: Any) -> None:
    with pytest.raises(TransientError):
        conversation.drain(Link(copies=[data(b"a"), end]))


def test_a_server_that_gives_the_slot_up_is_lost() -> None:
    gone = Result(pq.ExecStatus.FATAL_ERROR, b"55000", b'can no longer access replication slot "s"')
    with pytest.raises(StreamError) as lost:
        conversation.drain(Link(copies=[(-1, memoryview(b""))], results=[gone]))
    assert lost.value.code == "SLOT_LOST"


def test_a_status_that_was_not_taken_is_offered_again_when_writable() -> None:
    waits, _ = drive(conversation.send_status(Link(puts=[0, 0, 1]), b"r"), [Ready.W, Ready.W])
    assert waits == [Wait.W, Wait.W]


def test_bytes_that_stay_behind_are_flushed_when_writable() -> None:
    waits, _ = drive(conversation.send_status(Link(puts=[1], flushes=[1, 0]), b"r"), [Ready.W])
    assert waits == [Wait.W]


def test_a_question_is_flushed_then_read() -> None:
    link = Link(flushes=[1, 0], results=[Result(pq.ExecStatus.COMMAND_OK)])
    link.busy = [True, False, False]
    waits, rows = drive(conversation.execute(link, "IDENTIFY_SYSTEM"), [Ready.RW, Ready.R])
    assert (waits, rows) == ([Wait.RW, Wait.R], [])
    assert link.consumed == 2


def test_a_started_stream_is_in_both_directions() -> None:
    _, result = drive(conversation.start(Link(results=[Result(pq.ExecStatus.COPY_BOTH)]), "START_REPLICATION"), [])
    assert result is None


@pytest.mark.parametrize(
    ("state", "text", "kind", "code"),
    [
        ("55006", 'replication slot "s" is active for PID 7', TransientError, "SLOT_IN_USE"),
        ("42704", 'replication slot "s" does not exist', StreamError, "SLOT_MISSING"),
        ("42704", 'publication "p" does not exist', StreamError, "PUBLICATION_MISSING"),
        ("55000", 'can no longer get changes from replication slot "s"', StreamError, "SLOT_LOST"),
        ("42710", 'replication slot "s" already exists', TransientError, "SLOT_IN_USE"),
        ("42501", "permission denied to start WAL sender", ConfigError, "SOURCE_REFUSED"),
        ("57P01", "terminating connection due to administrator command", TransientError, "SOURCE_FAILED"),
        (None, "", TransientError, "SOURCE_FAILED"),
    ],
)
def test_a_refusal_says_who_can_mend_it(state: str | None, text: str, kind: type, code: str) -> None:
    error = refused_command("START_REPLICATION", state, text)
    assert (type(error), error.code) == (kind, code)
    assert text == "" or text not in str(error)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('connection failed: FATAL:  password authentication failed for user "u"', ConfigError),
        ("connection refused", TransientError),
        ("", TransientError),
    ],
)
def test_a_refused_connection_is_for_a_person_or_for_time(text: str, kind: type) -> None:
    assert type(refused_connection(text)) is kind
