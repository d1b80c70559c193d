"""A secret is read when it is needed and printed never."""

import json
import logging
import pickle
from pathlib import Path
from typing import Any

import pytest

from tidegate.config.load import pipeline_from
from tidegate.config.secret import Secret
from tidegate.errors import ConfigError

CANARY = "canary-7f3a"


@pytest.mark.parametrize("value", [CANARY, " with spaces ", "%@:/?#", "línea", "two\nlines"])
def test_the_value_comes_as_it_is(tmp_path: Path, value: str) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{value}\n", encoding="utf-8")

    assert value == Secret("env", "A").reveal({"A": value})
    assert value == Secret("file", str(file)).reveal()


def test_a_rotated_file_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    secret = Secret("file", str(file))
    file.write_text("old")
    old = secret.reveal()
    file.write_text("new\r\n")

    assert (old, secret.reveal()) == ("old", "new")


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "SECRET_EMPTY"),
        (b"\n", "SECRET_EMPTY"),
        (b"a\x00b", "SECRET_EMPTY"),
        (b"\xff", "SECRET_UNREADABLE"),
        (b"x" * 65537, "SECRET_TOO_LARGE"),
    ],
)
def test_a_file_that_holds_no_secret_is_refused(tmp_path: Path, content: bytes, code: str) -> None:
    file = tmp_path / "secret"
    file.write_bytes(content)

    with pytest.raises(ConfigError) as caught:
        Secret("file", str(file)).reveal()

    assert code == caught.value.code


def test_a_secret_is_in_nothing_that_a_configuration_can_be_turned_into(
    document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", CANARY)
    config = pipeline_from(document)
    assert config.source.password is not None
    assert config.source.password.reveal() == CANARY

    shown = [repr(config), str(config), config.model_dump_json(), repr(config.model_dump()), repr(pickle.dumps(config))]

    assert not any(CANARY in text for text in shown)
    assert json.loads(shown[2])["source"]["password"] == "${env:PGPASSWORD}"


def test_a_file_that_everybody_may_read_is_told(
    document: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not refused: orchestrators mount secrets like that."""
    file = tmp_path / "secret"
    file.write_text(CANARY)
    document["source"]["password"] = f"${{file:{file}}}"

    file.chmod(0o600)
    pipeline_from(document)
    before = [record.getMessage() for record in caplog.records]
    file.chmod(0o644)
    pipeline_from(document)

    assert before == []
    assert [(r.getMessage(), r.levelno) for r in caplog.records] == [
        ("secret_file_readable_by_others", logging.WARNING)
    ]
    assert CANARY not in caplog.text
