"""Errors cross process borders and tell what to do."""

import pickle

import pytest

from tidegate.errors import (
    ConfigError,
    DecodeError,
    ExitCode,
    Problem,
    RecordError,
    StreamError,
    TidegateError,
    TransientError,
    classify,
)

ERRORS = [
    ConfigError("refused", problems=(Problem("a.b", "CODE", "is wrong", "Mend it."),)),
    TransientError("down", code="DOWN", remedy="Wait."),
    RecordError("too large", code="LARGE"),
    StreamError("lost", code="LOST", remedy="Take a snapshot."),
    DecodeError("cut short", offset=7),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickling_with_all_it_says(error: TidegateError) -> None:
    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


@pytest.mark.parametrize(
    ("kind", "exit_code", "http_status"),
    [(ConfigError, 2, 422), (TransientError, 1, 503), (StreamError, 3, 409), (DecodeError, 3, 409)],
)
def test_a_kind_says_how_the_process_ends_and_what_a_client_sees(
    kind: type[TidegateError], exit_code: int, http_status: int
) -> None:
    assert kind.exit_code == exit_code
    assert kind.http_status == http_status


def test_a_supervisor_restarts_only_what_may_heal() -> None:
    assert [kind for kind in (ConfigError, TransientError, StreamError) if kind.exit_code == ExitCode.RETRY] == [
        TransientError
    ]


def test_a_configuration_error_shows_every_problem_with_its_remedy() -> None:
    error = ConfigError("refused", problems=(Problem("a", "A", "one", "Do."), Problem("b", "B", "two")))

    assert str(error) == "refused [CONFIG_INVALID]\n  a: one [A] (Do.)\n  b: two [B]"


def test_an_unclassified_failure_stops_the_stream_and_does_not_repeat_its_message() -> None:
    """A foreign message may quote a row: it stays out of ours."""
    error = classify(ValueError("row 42: canary-7f3a"))

    assert isinstance(error, StreamError)
    assert "canary" not in str(error)
    assert error.code == "UNCLASSIFIED"


def test_an_error_of_ours_stays_what_it_is() -> None:
    error = TransientError("down", code="DOWN")

    assert classify(error) is error
