"""What a configuration must not be: each mistake is told with its path and code, and all of them at once."""

import copy
from typing import Any

import pytest

from tidegate.config.base import Model
from tidegate.config.load import pipeline_from
from tidegate.config.secret import Secret
from tidegate.errors import ConfigError, Problem

ABSENT = object()
_OPTIONS = "transforms[0].options"
_COLUMN = f"{_OPTIONS}.columns[0]"
_IN_SINK = f"sinks[0].{_OPTIONS}.colums"
_SINK = {"name": "a", "type": "kafka_topics"}


def _transform(verb: str, **options: object) -> dict[str, object]:
    return {"type": verb, "options": options}


MISTAKES: list[tuple[str, object, str, str]] = [
    ("extra", 1, "extra", "CONFIG_UNKNOWN_KEY"),
    ("kafka.bootstap", "b:1", "kafka.bootstap", "CONFIG_UNKNOWN_KEY"),
    ("Pipeline", "shop", "Pipeline", "CONFIG_UNKNOWN_KEY"),
    ("pipeline", ABSENT, "pipeline", "CONFIG_MISSING"),
    ("pipeline", None, "pipeline", "CONFIG_TYPE"),
    ("pipeline", ["shop"], "pipeline", "CONFIG_TYPE"),
    ("pipeline", "Shop", "pipeline", "CONFIG_FORMAT"),
    ("pipeline", "../x", "pipeline", "CONFIG_FORMAT"),
    ("pipeline", "shop\n", "pipeline", "CONFIG_FORMAT"),
    ("pipeline", "s" * 33, "pipeline", "CONFIG_FORMAT"),
    ("source", [], "source", "CONFIG_TYPE"),
    ("source.port", "5432", "source.port", "CONFIG_TYPE"),
    ("source.port", 1e9, "source.port", "CONFIG_TYPE"),
    ("source.port", True, "source.port", "CONFIG_TYPE"),
    ("source.port", -1, "source.port", "CONFIG_RANGE"),
    ("source.type", "mysql", "source.type", "CONFIG_CHOICE"),
    ("source.password", "canary-7f3a", "source.password", "SECRET_PLAIN"),
    ("source.password", 12, "source.password", "SECRET_PLAIN"),
    ("source.password", "${env:UNSET}", "source.password", "SECRET_UNSET"),
    ("source.password", "${env:${env:A}}", "source.password", "SECRET_PLAIN"),
    ("source.password", "${file:/no/such/file}", "source.password", "SECRET_UNREADABLE"),
    ("source.password", "${file:relative}", "source.password", "SECRET_PLAIN"),
    ("processor.spark", {"spark.authenticate.secret": "canary-7f3a"}, "processor.spark", "SECRET_PLAIN"),
    ("processor.spark", {"spark.ssl.keyPassword": "canary-7f3a"}, "processor.spark", "SECRET_PLAIN"),
    ("processor.spark", {"spark.hadoop.fs.s3a.access.key": "canary-7f3a"}, "processor.spark", "SECRET_PLAIN"),
    ("processor.spark", {"spark.a.TOKEN": "x${env:REDIS_PASSWORD}"}, "processor.spark", "SECRET_PLAIN"),
    ("source.dsn", "postgresql://a:canary-7f3a@db/shop", "source.dsn", "CREDENTIALS_IN_URL"),
    ("source.dsn", "postgresql://a:canary-7f3a%@:/?# x@db/shop", "source.dsn", "CREDENTIALS_IN_URL"),
    ("source.dsn", "postgresql://a@db/shop?password=canary-7f3a", "source.dsn", "CREDENTIALS_IN_URL"),
    ("source.dsn", "host=db password=canary-7f3a", "source.dsn", "CREDENTIALS_IN_URL"),
    ("source.dsn", "postgresql://a@db/shop?sslmode=disable", "source.dsn", "DSN_FORM"),
    ("source.dsn", "mysql://a@db/shop", "source.dsn", "DSN_FORM"),
    ("source.dsn", "postgresql://db/shop", "source.dsn", "DSN_FORM"),
    ("source.dsn", "postgresql://a@db:99999/shop", "source.dsn", "DSN_FORM"),
    ("source.host", "other", "source.dsn", "DSN_AND_FIELDS"),
    ("sinks", [{**_SINK, "toast": "previous", "trigger": "batch"}], "sinks[0].toast", "TOAST_PREVIOUS_TRIGGER"),
    ("sinks", [{**_SINK, "writers": 2}], "sinks[0].writers", "WRITERS_TRIGGER"),
    ("sinks", [{**_SINK, "writers": 2, "trigger": "auto"}], "sinks[0].writers", "WRITERS_TRIGGER"),
    ("sinks", [{**_SINK, "type": "file", "writers": 2, "trigger": "batch"}], "sinks[0].writers", "WRITERS_SINK"),
    ("sinks", [{**_SINK, "toast": "previous", "trigger": "auto"}], "sinks[0].toast", "TOAST_PREVIOUS_TRIGGER"),
    ("source.slot", {"name": "Tide"}, "source.slot.name", "CONFIG_FORMAT"),
    ("source.slot", {"name": "s" * 64}, "source.slot.name", "CONFIG_FORMAT"),
    ("source.slot", {"name": "a%b"}, "source.slot.name", "CONFIG_FORMAT"),
    ("source.slot", {"create": "yes"}, "source.slot.create", "CONFIG_TYPE"),
    ("source.slot", {"temporary": True, "failover": True}, "source.slot.failover", "SLOT_TEMPORARY_FAILOVER"),
    ("source.slot", {"temporary": True, "on_lost": "resnapshot"}, "source.slot.on_lost", "SLOT_TEMPORARY_RESNAPSHOT"),
    ("source.slot", {"on_lost": "skip"}, "source.slot.on_lost", "CONFIG_CHOICE"),
    ("source.tls", {"mode": "verify_full"}, "source.tls.mode", "CONFIG_CHOICE"),
    ("source.tls", {"mode": "require", "ca": "/ca.pem"}, "source.tls.ca", "TLS_UNVERIFIED"),
    ("source.tls", {"cert": "/c.pem"}, "source.tls.key", "TLS_KEY_PAIR"),
    ("source.publication", ABSENT, "source.publication.tables", "PUBLICATION_TABLES"),
    ("source.publication", {"tables": []}, "source.publication.tables", "PUBLICATION_TABLES"),
    ("source.publication", {"tables": ["orders"]}, "source.publication.tables[0]", "CONFIG_TABLE"),
    ("source.publication", {"tables": ["a.b,c.d"]}, "source.publication.tables[0]", "CONFIG_TABLE"),
    ("source.publication", {"tables": ["public.o*"]}, "source.publication.tables", "PUBLICATION_PATTERN"),
    ("source.publication", {"tables": "public.orders"}, "source.publication.tables", "CONFIG_TYPE"),
    ("source.publication", {"manage": False}, "source.publication.names", "PUBLICATION_NAMES"),
    ("source.publication", {"manage": False, "names": ["n" * 64]}, "source.publication.names[0]", "CONFIG_NAME"),
    ("source.heartbeat", {"interval": 10}, "source.heartbeat.interval", "CONFIG_DURATION"),
    ("source.heartbeat", {"interval": "0s"}, "source.heartbeat.interval", "CONFIG_RANGE"),
    ("source.heartbeat", {"interval": "999999999d"}, "source.heartbeat.interval", "CONFIG_RANGE"),
    ("kafka.bootstrap", "broker", "kafka.bootstrap", "CONFIG_ADDRESS"),
    ("kafka.bootstrap", "a:1,,b:2", "kafka.bootstrap", "CONFIG_ADDRESS"),
    ("kafka.bootstrap", "u:canary-7f3a@b:9092", "kafka.bootstrap", "CREDENTIALS_IN_URL"),
    ("kafka.bootstrap", "${env:BROKER}", "kafka.bootstrap", "CONFIG_ADDRESS"),
    ("kafka.security", {"protocol": "SASL_SSL"}, "kafka.security.password", "KAFKA_SASL"),
    ("kafka.security", {"username": "u"}, "kafka.security.username", "KAFKA_SASL"),
    ("kafka.security", {"ca": "/ca.pem"}, "kafka.security.ca", "KAFKA_TLS"),
    ("raw_topic", {"name": ".."}, "raw_topic.name", "CONFIG_TOPIC"),
    ("raw_topic", {"name": "a" * 250}, "raw_topic.name", "CONFIG_TOPIC"),
    ("raw_topic", {"name": "${env:TOPIC}"}, "raw_topic.name", "CONFIG_TOPIC"),
    ("raw_topic", {"max_frame": "16MiB"}, "raw_topic.max_in_flight", "RAW_TOPIC_IN_FLIGHT"),
    ("raw_topic", {"max_frame": 262_144}, "raw_topic.max_frame", "CONFIG_SIZE"),
    ("redis.url", "redis://:canary-7f3a@cache/0", "redis.url", "CREDENTIALS_IN_URL"),
    ("redis.url", "http://cache:6379", "redis.url", "REDIS_URL"),
    ("redis.url", "redis://cache:6379/0?password=canary-7f3a", "redis.url", "REDIS_URL"),
    ("redis.url", "redis://cache:6379/../x", "redis.url", "REDIS_URL"),
    ("redis.username", "${env:REDIS_USER}", "redis.username", "CONFIG_REFERENCE_MISPLACED"),
    ("redis.tls", {"ca": "/ca.pem"}, "redis.tls", "REDIS_TLS"),
    ("tracing", {"ratio": 0.5}, "tracing.endpoint", "CONFIG_MISSING"),
    ("tracing", {"endpoint": "http://u:canary-7f3a@c:4318"}, "tracing.endpoint", "CREDENTIALS_IN_URL"),
    ("tracing", {"endpoint": "collector:4318"}, "tracing.endpoint", "TRACING_ENDPOINT"),
    ("tracing", {"endpoint": "file:///etc/passwd"}, "tracing.endpoint", "TRACING_ENDPOINT"),
    ("tracing", {"endpoint": "http://c:4318?key=canary-7f3a"}, "tracing.endpoint", "TRACING_ENDPOINT"),
    ("tracing", {"endpoint": "http://c\\d:4318"}, "tracing.endpoint", "TRACING_ENDPOINT"),
    ("tracing", {"endpoint": "http://c:4318/\r\nx"}, "tracing.endpoint", "TRACING_ENDPOINT"),
    ("tracing", {"endpoint": "http://c:99999"}, "tracing.endpoint", "TRACING_ENDPOINT"),
    ("tracing", {"endpoint": "http://c", "ratio": 0}, "tracing.ratio", "CONFIG_RANGE"),
    ("tracing", {"endpoint": "http://c", "ratio": 1.01}, "tracing.ratio", "CONFIG_RANGE"),
    ("tracing", {"endpoint": "http://c", "ca": "/ca.pem"}, "tracing.ca", "TRACING_TLS"),
    ("tracing", {"endpoint": "http://c", "headers": {"a": "canary-7f3a"}}, "tracing.headers.a", "SECRET_PLAIN"),
    ("tracing", {"endpoint": "http://c", "headers": {"a": "${env:UNSET}"}}, "tracing.headers.a", "SECRET_UNSET"),
    ("sinks", [], "sinks", "CONFIG_RANGE"),
    ("sinks", {"name": "a"}, "sinks", "CONFIG_TYPE"),
    ("sinks", [None], "sinks[0]", "CONFIG_TYPE"),
    ("sinks", [{"name": "a", "type": "kafka_topic"}], "sinks[0].type", "CONFIG_CHOICE"),
    ("sinks", [{"name": "a", "type": "kafka_topics"}] * 2, "sinks[1].name", "SINK_DUPLICATE"),
    ("transforms", [{"type": "blur"}], "transforms[0].type", "TRANSFORM_UNKNOWN"),
    ("transforms", [{"type": "mask", "options": {"columns": ["a"]}}], "transforms[0].options.how", "CONFIG_MISSING"),
    ("transforms", [_transform("mask", how="zero", columns=[])], "transforms[0].options.columns", "CONFIG_RANGE"),
    ("transforms", [_transform("mask", how="zero", columns=["a" * 64])], _COLUMN, "CONFIG_NAME_TOO_LONG"),
    ("transforms", [_transform("mask", how="hash", columns=["a"])], _OPTIONS, "TRANSFORM_SALT_MISSING"),
    ("transforms", [_transform("mask", how="zero", columns=["a"], salt="${env:A}")], _OPTIONS, "TRANSFORM_SALT_UNUSED"),
    ("transforms", [_transform("mask", how="hash", salt="canary-7f3a")], f"{_OPTIONS}.salt", "SECRET_PLAIN"),
    ("transforms", [_transform("drop_columns", tables=["orders"])], f"{_OPTIONS}.tables[0]", "CONFIG_TABLE"),
    ("transforms", [_transform("rename_fields", fields={"a": "c", "b": "c"})], _OPTIONS, "TRANSFORM_RENAME_TWICE"),
    ("transforms", [_transform("filter", where="a = 'canary-7f3a")], f"{_OPTIONS}.where", "TRANSFORM_CONDITION"),
    ("transforms", [_transform("filter", where="1 = 1")], f"{_OPTIONS}.where", "TRANSFORM_CONDITION"),
    ("transforms", [_transform("filter", action="pass")], f"{_OPTIONS}.action", "CONFIG_CHOICE"),
    ("sinks", [_SINK | {"transforms": [_transform("mask", colums=["a"])]}], _IN_SINK, "CONFIG_UNKNOWN_KEY"),
    ("reader", {"http": 8081}, "reader.http", "CONFIG_ADDRESS"),
    ("log", {"level": "INFO"}, "log.level", "CONFIG_CHOICE"),
]


def put(document: dict[str, Any], path: str, value: object) -> None:
    *parents, last = path.split(".")
    for parent in parents:
        document = document.setdefault(parent, {})
    if value is ABSENT:
        document.pop(last)
    else:
        document[last] = copy.deepcopy(value)


def problems(document: object, environ: dict[str, str], **options: Any) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as caught:
        pipeline_from(document, (), environ, **options)
    return caught.value.problems


@pytest.mark.parametrize(("at", "value", "path", "code"), MISTAKES)
def test_a_mistake_is_told_with_its_path(
    document: dict[str, Any], environ: dict[str, str], at: str, value: object, path: str, code: str
) -> None:
    put(document, at, value)

    found = problems(document, environ)

    assert (path, code) in [(problem.path, problem.code) for problem in found]
    assert all(problem.reason and problem.remedy for problem in found)
    assert "canary-7f3a" not in "".join(map(str, found))


@pytest.mark.parametrize("document", [None, [], "text", 1])
def test_a_file_without_a_mapping_is_refused(document: object, environ: dict[str, str]) -> None:
    assert [problem.code for problem in problems(document, environ)] == ["CONFIG_EMPTY"]


class Options(Model):
    topic: str
    partitions: int = 1
    token: Secret | None = None


def test_all_mistakes_are_told_at_once(document: dict[str, Any], environ: dict[str, str]) -> None:
    """From file, models, options of sinks, rules over the whole file, and secrets."""
    put(document, "kafka.bootstap", "x")
    put(document, "source.password", "${env:UNSET}")
    put(document, "source.slot", {"create": "yes", "name": "A"})
    put(document, "raw_topic", {"linger": 3})
    sink = {"name": "events", "type": "kafka_topics", "options": {"topik": "t", "partitions": "2", "token": "plain"}}
    put(document, "sinks", [sink, {"name": "events", "type": "kafka_topics", "requird": True}])

    found = problems(document, environ, option_models={"kafka_topics": Options})

    assert {
        ("kafka.bootstap", "CONFIG_UNKNOWN_KEY"),
        ("raw_topic.linger", "CONFIG_DURATION"),
        ("sinks[0].options.partitions", "CONFIG_TYPE"),
        ("sinks[0].options.token", "SECRET_PLAIN"),
        ("sinks[0].options.topic", "CONFIG_MISSING"),
        ("sinks[0].options.topik", "CONFIG_UNKNOWN_KEY"),
        ("sinks[1].name", "SINK_DUPLICATE"),
        ("sinks[1].options.topic", "CONFIG_MISSING"),
        ("sinks[1].requird", "CONFIG_UNKNOWN_KEY"),
        ("source.password", "SECRET_UNSET"),
        ("source.slot.create", "CONFIG_TYPE"),
        ("source.slot.name", "CONFIG_FORMAT"),
    } == {(problem.path, problem.code) for problem in found}


@pytest.mark.parametrize(
    ("at", "value", "hint"),
    [
        ("kafka.bootstap", "x", "Did you mean bootstrap?"),
        ("sinks", [{"name": "a", "type": "kafka_topic"}], "Did you mean kafka_topics?"),
        ("sinks", [{"name": "a", "type": "kafka_topics", "form": "now"}], "Did you mean from?"),
        ("source.tls", {"mode": "VERIFY-FULL"}, "Did you mean verify-full?"),
        ("source.slot", {"create": "on"}, "Only true and false, unquoted"),
        ("sinks", [{"name": "a", "type": "kafka_topics", "options": {"topik": "t"}}], "Did you mean topic?"),
    ],
)
def test_a_near_miss_comes_with_a_suggestion(
    document: dict[str, Any], environ: dict[str, str], at: str, value: object, hint: str
) -> None:
    put(document, at, value)

    found = problems(document, environ, option_models={"kafka_topics": Options})

    assert any(hint in problem.remedy for problem in found)


def test_a_hostile_key_cannot_forge_lines_or_colours(document: dict[str, Any], environ: dict[str, str]) -> None:
    put(document, "a\nERROR all is lost\x1b[31m", 1)

    text = "".join(map(str, problems(document, environ)))

    assert text.isprintable()
