"""Where a lane's query begins to read: never behind what the reader may have fed again for it."""

from collections.abc import Iterator

import pytest
import redis as redis_client
from kit.frames import GENERATION
from kit.pipelines import checked, document, secrets_of

from tidegate.checkpoint.redis_store import write_ack
from tidegate.config.pipeline import PipelineConfig
from tidegate.contracts import names
from tidegate.contracts.ack import Ack
from tidegate.contracts.lineage import Lineage
from tidegate.lsn import Lsn
from tidegate.position import Position
from tidegate_processor.starting import starting_offsets

FROM = ["now", "snapshot", "earliest"]


@pytest.fixture
def client(redis) -> Iterator[redis_client.Redis]:
    client = redis_client.Redis.from_url(redis.url)
    yield client
    client.close()


@pytest.fixture
def configured(redis, prefix: str, monkeypatch: pytest.MonkeyPatch):
    """Of a sink whose consumer group has no cursor."""
    secrets = secrets_of(redis_url=redis.url)
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)

    def made(begins: str) -> PipelineConfig:
        sinks = [{"name": "events", "type": "kafka_topics", "from": begins}]
        return checked(document(prefix, kafka="127.0.0.1:1", redis_url=redis.url, sinks=sinks), secrets)

    return made


@pytest.mark.parametrize("begins", FROM)
def test_a_lane_that_has_acked_reads_all_that_was_fed_again_for_it(client, prefix: str, configured, begins) -> None:
    client.set(names.lineage_key(prefix), Lineage(GENERATION, 2, "again", Lsn(1), ("events",), ()).encode())
    write_ack(client, prefix, Ack("events", GENERATION.id, 1, "topic", 1, Position(Lsn(16), 1), Lsn(32), 0))

    assert starting_offsets(configured(begins), "events", []) == "earliest"


@pytest.mark.parametrize("begins", FROM)
def test_a_lane_without_a_past_begins_where_it_is_told_to(client, prefix: str, configured, begins) -> None:
    expected = "earliest" if begins == "earliest" else "latest"
    assert starting_offsets(configured(begins), "events", []) == expected

    client.set(names.lineage_key(prefix), Lineage(GENERATION, 2, "again", Lsn(1), ("events",), ("events",)).encode())

    assert starting_offsets(configured(begins), "events", []) == expected
