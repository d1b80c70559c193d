"""What the service refuses to start with."""

from pathlib import Path

import pytest

from tidegate.errors import ConfigError
from tidegate_admin.config import TOKEN_VARIABLE, load_settings

FILE = """
pipeline: {name}
source: {{dsn: "postgresql://tidegate@localhost/shop", publication: {{tables: [public.orders]}}}}
kafka: {{bootstrap: "localhost:9092"}}
redis: {{url: redis://localhost/0}}
sinks: [{{name: events, type: kafka_topics}}]
admin: {{http: "{http}"}}
"""
TOKEN = "0123456789abcdef"


@pytest.fixture
def files(tmp_path: Path):
    def write(*pairs: tuple[str, str]) -> list[Path]:
        paths = []
        for number, (name, http) in enumerate(pairs):
            paths.append(tmp_path / f"{number}.yaml")
            paths[-1].write_text(FILE.format(name=name, http=http))
        return paths

    return write


def codes(error: pytest.ExceptionInfo[ConfigError]) -> list[str]:
    return [problem.code for problem in error.value.problems]


def test_loopback_needs_no_token(files) -> None:
    assert load_settings(files(("shop", "127.0.0.1:8080")), environ={}).http.port == 8080


@pytest.mark.parametrize("http", ["0.0.0.0:8080", "[::]:8080", "10.0.0.1:8080", "admin.internal:8080"])
def test_an_address_that_others_reach_needs_a_token(files, http: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_settings(files(("shop", http)), environ={})
    assert codes(error) == ["ADMIN_TOKEN_MISSING"]
    assert load_settings(files(("shop", http)), environ={TOKEN_VARIABLE: TOKEN}).token == TOKEN


@pytest.mark.parametrize("token", ["short", "changeme"])
def test_a_token_that_can_be_guessed_is_refused(files, token: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_settings(files(("shop", "127.0.0.1:1")), environ={TOKEN_VARIABLE: token})
    assert codes(error) == ["ADMIN_TOKEN_WEAK"]


def test_everything_wrong_between_files_is_told_at_once(files) -> None:
    """Same name twice, two addresses, no token."""
    with pytest.raises(ConfigError) as error:
        load_settings(files(("shop", "0.0.0.0:1"), ("shop", "127.0.0.1:2")), environ={})
    assert codes(error) == ["PIPELINE_DUPLICATE", "ADMIN_ADDRESS_AMBIGUOUS", "ADMIN_TOKEN_MISSING"]


def test_listen_decides_between_files(files) -> None:
    settings = load_settings(files(("a", "127.0.0.1:1"), ("b", "127.0.0.1:2")), listen="[::1]:9", environ={})
    assert str(settings.http) == "[::1]:9"


def test_the_token_is_not_in_what_is_printed(files) -> None:
    settings = load_settings(files(("shop", "127.0.0.1:1")), environ={TOKEN_VARIABLE: TOKEN})
    assert TOKEN not in repr(settings)
