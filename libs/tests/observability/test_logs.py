"""One event, one line, no forgery."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import ConfigError, Problem, StreamError
from tidegate.observability import logs

FORGED = 'x\n{"level": "error", "event": "forged"}\r\x1b[31m\x85\u2028'


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("tidegate")
    before = (root.handlers, root.level, ours.level)
    yield
    root.handlers = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])


def started(style: str = "json", level: str = "info") -> io.StringIO:
    stream = io.StringIO()
    logs.configure("reader", "shop", level=level, style=style, stream=stream)
    return stream


def test_a_line_is_one_json_object_that_says_who_and_what() -> None:
    stream = started()

    logs.get("publisher").info("frame_acked", offset=42, lag=1.5, table="public.orders", last=None)

    line = json.loads(stream.getvalue())
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "service": "reader",
        "pipeline": "shop",
        "event": "frame_acked",
        "component": "publisher",
        "offset": 42,
        "lag": 1.5,
        "table": "public.orders",
        "last": None,
    }


@pytest.mark.parametrize("style", ["json", "text"])
@given(text=st.text() | st.just(FORGED))
def test_no_field_can_forge_a_line_or_steer_a_terminal(style: str, text: str) -> None:
    stream = started(style)

    logs.get("a").info("seen", name=text, names=[text])

    line = stream.getvalue().removesuffix("\n")
    assert line.isascii()
    assert line.isprintable()


@pytest.mark.parametrize("style", ["json", "text"])
def test_a_foreign_message_is_one_line_too(style: str) -> None:
    stream = started(style)

    logging.getLogger("kafka").warning(FORGED)

    assert stream.getvalue().removesuffix("\n").isprintable()


def test_a_field_cannot_pretend_to_be_what_the_line_says_about_itself() -> None:
    stream = started()

    logs.get("a").info("seen", level="error", service="other")

    line = json.loads(stream.getvalue())
    assert (line["level"], line["service"]) == ("info", "reader")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {"a": 1}, b"x", "x" * 10_000, [1] * 10_000])
def test_any_value_gives_bounded_json(value: object) -> None:
    stream = started()

    logs.get("a").info("seen", value=value)

    assert "value" in json.loads(stream.getvalue())
    assert len(stream.getvalue()) < 3_000


def test_what_is_below_the_level_is_not_written() -> None:
    stream = started(level="warning")

    logs.get("a").info("seen")
    logs.get("a").warning("told")

    assert json.loads(stream.getvalue())["event"] == "told"


def test_a_failure_of_ours_tells_code_and_remedy() -> None:
    stream = started()

    logs.get("main").failure("stopped", StreamError("lost", code="LOST", remedy="Take a snapshot."), lane="events")

    line = json.loads(stream.getvalue())
    assert (line["code"], line["remedy"], line["lane"]) == ("LOST", "Take a snapshot.", "events")


def test_a_refused_configuration_lists_its_problems() -> None:
    stream = started()

    logs.get("main").failure("stopped", ConfigError("refused", problems=(Problem("a", "A", "one"),)))

    assert json.loads(stream.getvalue())["problems"] == ["a: one [A]"]


def test_a_foreign_failure_tells_its_type_and_not_its_message() -> None:
    stream = started()

    logs.get("main").failure("stopped", ValueError("row: canary-7f3a"))

    assert json.loads(stream.getvalue())["error"] == "ValueError"
    assert "canary" not in stream.getvalue()


@pytest.mark.parametrize("style", ["json", "text"])
def test_what_a_server_said_is_not_told_by_its_client(style: str) -> None:
    stream = started(style)

    logging.getLogger("psycopg").warning("error ignored: Key (id)=(canary-7f3a) already exists")

    assert stream.getvalue() == ""


def test_colours_are_for_a_terminal_only() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        logs.configure("reader", stream=stream, style="auto")
        logs.get("a").info("seen")

    assert "\x1b[32m" in terminal.getvalue()
    assert json.loads(file.getvalue())["event"] == "seen"
