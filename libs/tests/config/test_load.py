"""What a good configuration becomes, and who wins where several speak."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tidegate.config.base import Address, Model
from tidegate.config.load import load_pipeline, parse_options, pipeline_from
from tidegate.config.pipeline import PipelineConfig
from tidegate.config.secret import Secret
from tidegate.config.source import TlsMode
from tidegate.errors import ConfigError

FILE = """
pipeline: my-shop
source:
  dsn: postgresql://tide%40gate@db/shop
  publication: {tables: [public.orders]}
kafka: {bootstrap: "broker:9092, [::1]:9093"}
raw_topic: {linger: 5ms}
redis: {url: redis://cache}
sinks:
  - {name: events-a, type: kafka_topics}
"""


class Options(Model):
    topic: str = "t"
    partitions: int = 1
    token: Secret | None = None


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.yaml"
    path.write_text(FILE)
    return path


def test_names_are_derived_from_the_pipeline(path: Path) -> None:
    config = load_pipeline(path, environ={})

    assert config.raw_topic.name == "tidegate.my-shop.raw"
    assert config.source.slot.name == "tidegate_my_shop"
    assert config.publication_names == ("tidegate_my_shop",)


def test_given_publications_are_named_by_their_owner(document: dict[str, Any], environ: dict[str, str]) -> None:
    document["source"]["publication"] = {"manage": False, "names": ["a", 'b"c, d']}

    assert pipeline_from(document, (), environ).publication_names == ("a", 'b"c, d')


def test_a_dsn_gives_the_fields(path: Path) -> None:
    source = load_pipeline(path, environ={}).source

    assert (source.host, source.port, source.database, source.user) == ("db", 5432, "shop", "tide@gate")


def test_fields_may_stand_in_place_of_a_dsn(document: dict[str, Any], environ: dict[str, str]) -> None:
    del document["source"]["dsn"]
    document["source"] |= {"host": "/run/postgres", "port": 5433, "database": "shop", "user": "tidegate"}

    assert (
        pipeline_from(document, (), environ).source.host,
        pipeline_from(document, (), environ).source.port,
    ) == ("/run/postgres", 5433)


def test_an_authority_makes_the_connection_verified(document: dict[str, Any], environ: dict[str, str]) -> None:
    document["source"]["tls"] = {"ca": "/ca.pem"}

    assert pipeline_from(document, (), environ).source.tls.mode == TlsMode.VERIFY_FULL


def test_brokers_are_listed_without_spaces(path: Path) -> None:
    assert load_pipeline(path, environ={}).kafka.bootstrap == "broker:9092,[::1]:9093"


def test_the_environment_wins_over_the_file_and_the_command_line_over_both(path: Path) -> None:
    environ = {"TIDEGATE_RAW_TOPIC__LINGER": "6ms", "TIDEGATE_RAW_TOPIC__RETENTION": "2d"}

    config = load_pipeline(path, ["raw_topic.linger=7ms"], environ)

    assert timedelta(milliseconds=7) == config.raw_topic.linger
    assert timedelta(days=2) == config.raw_topic.retention


@pytest.mark.parametrize(
    "argument", ["sinks.events-a.required=false", "sinks[0].required=false", "sinks.0.required=false"]
)
def test_an_entry_of_a_list_is_named_or_numbered(path: Path, argument: str) -> None:
    assert load_pipeline(path, [argument], {}).sinks[0].required is False


def test_a_variable_names_an_entry_without_hyphens(path: Path) -> None:
    assert load_pipeline(path, (), {"TIDEGATE_SINKS__EVENTS_A__REQUIRED": "false"}).sinks[0].required is False


def test_text_that_looks_like_a_number_stays_text_where_text_is_wanted(path: Path) -> None:
    config = load_pipeline(
        path, ["redis.username=007", "sinks.0.options.topic=12"], {}, option_models={"kafka_topics": Options}
    )

    assert config.redis.username == "007"
    assert parse_options(config.sinks[0], Options).topic == "12"


def test_a_whole_section_can_be_given_as_one_value(path: Path) -> None:
    config = load_pipeline(path, ['reader={"http": "[::1]:9000"}'], {})

    assert Address("::1", 9000) == config.reader.http


@pytest.mark.parametrize("value", ["canary%@:/?# x", "12345", "[not: yaml", "null", "a=b\nc"])
def test_a_secret_in_its_own_variable_is_kept_as_it_is(path: Path, value: str) -> None:
    environ = {"TIDEGATE_SOURCE__PASSWORD": value}
    password = load_pipeline(path, (), environ).source.password

    assert password is not None
    assert value == password.reveal(environ)
    assert value not in repr(password)


def test_a_secret_on_the_command_line_is_refused(path: Path) -> None:
    """Everybody who can list processes could read it."""
    with pytest.raises(ConfigError) as caught:
        load_pipeline(path, ["source.password=canary-7f3a"], {})

    assert [problem.code for problem in caught.value.problems] == ["SECRET_PLAIN"]


@pytest.mark.parametrize(
    ("arguments", "environ", "code"),
    [
        (["novalue"], {}, "OVERRIDE_FORM"),
        (["=x"], {}, "OVERRIDE_FORM"),
        (["a..b=x"], {}, "OVERRIDE_FORM"),
        (["sinks.other.required=false"], {}, "OVERRIDE_PATH"),
        (["pipeline.name=x"], {}, "OVERRIDE_PATH"),
        (["kafka.bootstap=x"], {}, "CONFIG_UNKNOWN_KEY"),
        ([], {"TIDEGATE_KAFKA__BOOTSTAP": "x"}, "CONFIG_UNKNOWN_KEY"),
        ([], {"TIDEGATE_RAW_TOPIC__REPLICATION_FACTOR": "three"}, "CONFIG_TYPE"),
        ([], {"TIDEGATE_RAW_TOPIC__REPLICATION_FACTOR": " 3"}, "CONFIG_TYPE"),
    ],
)
def test_an_override_that_leads_nowhere_is_told(
    path: Path, arguments: list[str], environ: dict[str, str], code: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_pipeline(path, arguments, environ)

    assert [code] == [problem.code for problem in caught.value.problems]


def test_a_variable_that_a_platform_injects_is_not_ours(path: Path) -> None:
    environ = {"TIDEGATE_READER_SERVICE_HOST": "10.0.0.1", "TIDEGATE_CACHE": "/tmp", "OTHER__KEY": "1"}

    assert load_pipeline(path, (), environ).pipeline == "my-shop"


def test_a_service_needs_only_the_secrets_it_uses(document: dict[str, Any]) -> None:
    config = pipeline_from(document, (), {}, secrets={"kafka", "redis", "sinks"})

    assert isinstance(config, PipelineConfig)


def test_a_missing_file_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_pipeline(tmp_path / "none.yaml", (), {})

    assert caught.value.code == "CONFIG_UNREADABLE"


def test_options_alone_tell_their_mistakes_with_the_path(document: dict[str, Any], environ: dict[str, str]) -> None:
    document["sinks"][0]["options"] = {"topik": "x"}
    sink = pipeline_from(document, (), environ).sinks[0]

    with pytest.raises(ConfigError) as caught:
        parse_options(sink, Options)

    assert [problem.path for problem in caught.value.problems] == ["sinks.events.options.topik"]
