"""What the watch reads from Redis is what is there now, although it is read again only where it has changed."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest
import redis as redis_client
from kit.admin import make_ack, make_lane, make_reader
from kit.epoch_examples import LINEAGE
from kit.pipelines import checked, document, secrets_of

from tidegate.contracts import names
from tidegate_admin.pipelines.observation import Statuses, StatusReader

OTHER = "0" * 32


class Place:
    def __init__(self, client: redis_client.Redis, reader: StatusReader, pipeline: str) -> None:
        self.client, self.reader, self.pipeline = client, reader, pipeline

    def told(self, generation: str, **values: bytes) -> None:
        reader = make_reader(pipeline=self.pipeline, generation=generation)
        self.client.set(names.reader_status_key(self.pipeline), reader.encode())
        for sink, value in values.items():
            self.client.set(names.lane_status_key(self.pipeline, sink), value)

    def acked(self, generation: str, value: bytes) -> None:
        self.client.hset(names.ack_key(self.pipeline, generation), "events", value)

    def read(self) -> Statuses:
        return self.loop.run_until_complete(self.reader.read())

    loop: asyncio.AbstractEventLoop


@pytest.fixture
def there(redis, prefix: str) -> Iterator[Place]:
    values = document(prefix, kafka="127.0.0.1:1", redis_url=redis.url)
    environ = secrets_of(redis_url=redis.url)
    with pytest.MonkeyPatch.context() as patched, redis_client.Redis.from_url(redis.url) as client:
        for name, value in environ.items():
            patched.setenv(name, value)
        made = Place(client, StatusReader(checked(values, environ)), prefix)
        made.loop = asyncio.new_event_loop()
        yield made
        made.loop.run_until_complete(made.reader.close())
        made.loop.close()


def test_each_look_tells_what_is_there_then(there: Place) -> None:
    """Unchanged, changed, malformed, mended, gone."""
    first, second = make_lane(events=1), make_lane(events=2)
    key = names.lane_status_key(there.pipeline, "events")
    seen = []
    for value in (first.encode(), first.encode(), second.encode(), b"{}", b"{}", second.encode()):
        there.told("", events=value)
        seen.append(there.read().lanes.get("events"))
    there.client.delete(key)
    seen.append(there.read().lanes.get("events"))
    assert seen == [first, first, second, None, None, second, None]


def test_an_ack_is_believed_in_its_own_generation_only(there: Place) -> None:
    """The same bytes, found under two generations in turn."""
    ack = make_ack()
    mine, other = ack.generation, OTHER
    foreign = replace(ack, generation=other)
    seen = []
    for generation, value in ((mine, ack), (other, ack), (mine, ack), (mine, foreign), (other, foreign)):
        there.told(generation)
        there.acked(generation, value.encode())
        seen.append(there.read().acks.get("events"))
    assert seen == [ack, None, ack, None, foreign]


def test_acks_are_told_of_where_the_pipeline_was_while_its_reader_fails_at_the_start(there: Place) -> None:
    """Such a reader says no generation: a lost slot is then what a person asks about."""
    ack = replace(make_ack(), generation=LINEAGE.generation.id)
    there.acked(ack.generation, ack.encode())
    there.told("")
    seen = [there.read().acks.get("events")]
    there.client.set(names.lineage_key(there.pipeline), LINEAGE.encode())
    seen.append(there.read().acks.get("events"))
    there.told(OTHER)
    seen.append(there.read().acks.get("events"))
    assert seen == [None, ack, None]
