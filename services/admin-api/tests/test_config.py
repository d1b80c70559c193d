"""What the service refuses to start with."""

from pathlib import Path

import pytest

from tidegate.errors import ConfigError
from tidegate_admin.config import Told, load_settings
from tidegate_admin.security import tokens
from tidegate_admin.security.scopes import Scope
from tidegate_admin.security.tokens import TOKENS_VARIABLE

FILE = """
pipeline: {name}
source: {{dsn: "postgresql://tidegate@localhost/shop", publication: {{tables: [public.orders]}}}}
kafka: {{bootstrap: "localhost:9092"}}
redis: {{url: redis://localhost/0}}
sinks: [{{name: events, type: kafka_topics}}]
admin: {{http: "{http}"}}
"""


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


@pytest.fixture
def made(tmp_path: Path) -> str:
    tokens.create(tmp_path / "tokens.json", "me", frozenset({Scope.READ}))
    return str(tmp_path / "tokens.json")


@pytest.mark.parametrize("http", ["0.0.0.0:8080", "[::]:8080", "10.0.0.1:8080", "admin.internal:8080"])
def test_an_address_that_others_reach_needs_tokens(files, made: str, http: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_settings(files(("shop", http)), environ={})
    assert codes(error) == ["ADMIN_TOKEN_MISSING"]
    assert load_settings(files(("shop", http)), environ={TOKENS_VARIABLE: made}).tokens == Path(made)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("{}", "ADMIN_TOKEN_MISSING"),
        ("changeme", "TOKENS_MALFORMED"),
        (
            '{"tokens": [{"id": "0123456789ab", "name": "x", "scopes": ["read"], "created": 1, "sha256": "%s"}]}'
            % ("0" * 64),
            "TOKENS_MALFORMED",
        ),
        (None, "TOKENS_UNREADABLE"),
    ],
)
def test_a_file_of_no_tokens_or_of_placeholders_is_refused(files, tmp_path: Path, content, code: str) -> None:
    """Also on loopback: who names a file means to be protected."""
    path = tmp_path / "tokens.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError) as error:
        load_settings(files(("shop", "127.0.0.1:1")), told=Told(tokens=str(path)), environ={})
    assert codes(error) == [code]


def test_everything_wrong_between_files_is_told_at_once(files) -> None:
    """Same name twice, two addresses, no token."""
    with pytest.raises(ConfigError) as error:
        load_settings(files(("shop", "0.0.0.0:1"), ("shop", "127.0.0.1:2")), environ={})
    assert codes(error) == ["PIPELINE_DUPLICATE", "ADMIN_ADDRESS_AMBIGUOUS", "ADMIN_TOKEN_MISSING"]


def test_listen_decides_between_files(files) -> None:
    settings = load_settings(files(("a", "127.0.0.1:1"), ("b", "127.0.0.1:2")), told=Told("[::1]:9"), environ={})
    assert str(settings.http) == "[::1]:9"
