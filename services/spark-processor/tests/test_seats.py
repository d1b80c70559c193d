"""The cursors of several writers on real brokers: whose transaction moves which, and how many writers a lane has."""

from dataclasses import replace
from typing import Any

import pytest
from kit.frames import GENERATION
from kit.pipelines import checked, document, secrets_of
from kit.topics import append, make_topic

from tidegate.config.pipeline import PipelineConfig
from tidegate.contracts.cursor import Cursor
from tidegate.errors import ConfigError, StreamError, TransientError
from tidegate.lsn import Lsn
from tidegate.position import Position
from tidegate_processor.seat import Seat
from tidegate_processor.sinks.registry import cursors_of
from tidegate_processor.sinks.shared.seated import GatheredProducer, SeatedProducer
from tidegate_processor.sinks.shared.transactional import TransactionalProducer
from tidegate_processor.writers import Start, check, start_of

SINK = "events"


def configured(prefix: str, kafka: str, redis_url: str, **sink: Any) -> PipelineConfig:
    sinks = [{"name": SINK, "type": "kafka_topics", "trigger": "batch", **sink}]
    return checked(document(prefix, kafka=kafka, redis_url=redis_url, sinks=sinks), secrets_of(redis_url=redis_url))


class Place:
    def __init__(self, prefix: str, kafka: str, redis_url: str) -> None:
        self._at = prefix, kafka, redis_url
        self.config = self.of(1)
        self.topic_id = make_topic(kafka, self.config.raw_topic.name)
        append(kafka, self.config.raw_topic.name, [b"x"] * 20)

    def of(self, writers: int, **options: Any) -> PipelineConfig:
        return configured(*self._at, writers=writers, options=options)

    def cursor(self, offset: int) -> Cursor:
        position = Position(Lsn(offset), 0)
        return Cursor(GENERATION.id, self.topic_id, 1, "00" * 16, offset, offset, position, Lsn(offset), "c1", 1)

    def stand_at(self, *offsets: int) -> list[SeatedProducer]:
        """As many writers, each at its own place."""
        gathered = GatheredProducer(self.config, SINK)
        gathered.open()
        gathered.become(len(offsets), self.cursor(1))
        gathered.close()
        seated = [SeatedProducer(self.config, SINK, Seat(writer, len(offsets))) for writer in range(len(offsets))]
        for producer, offset in zip(seated, offsets, strict=True):
            producer.open()
            producer.commit(self.cursor(offset))
        return seated

    @property
    def offsets(self) -> list[int]:
        return [cursor.next_offset for cursor in cursors_of(self.config, self.config.sink(SINK)) if cursor is not None]


@pytest.fixture
def place(kafka, redis, prefix: str, monkeypatch: pytest.MonkeyPatch) -> Place:
    for name, value in secrets_of(redis_url=redis.url).items():
        monkeypatch.setenv(name, value)
    return Place(prefix, kafka.bootstrap, redis.url)


def test_each_writer_moves_its_own_cursor_and_alone_those_of_all(place: Place) -> None:
    seat = Seat(0, 3)
    place.stand_at(4, 6, 5)
    assert place.offsets == [4, 6, 5]
    first = SeatedProducer(place.config, SINK, seat)
    first.open()
    seat.be_alone([Position(Lsn(each), 0) for each in (6, 9, 6)])

    first.commit(place.cursor(7))

    cursors = cursors_of(place.config, place.config.sink(SINK))
    assert place.offsets == [7, 7, 7]
    assert [cursor.position.commit_lsn for cursor in cursors if cursor is not None] == [7, 9, 7]


def test_the_driver_fences_all_and_what_it_commits_as_it_read_it_leaves_each_where_it_stands(place: Place) -> None:
    writers = place.stand_at(4, 6)
    driver = GatheredProducer(place.config, SINK)
    cursor = driver.open()

    assert cursor is not None
    assert (4, Position(Lsn(6), 0)) == (cursor.next_offset, cursor.rewound_from)
    for writer in writers:
        with pytest.raises(TransientError):
            writer.commit(place.cursor(9))
    driver.commit(replace(cursor, incarnation=5))
    assert place.offsets == [4, 6]

    driver.commit(replace(cursor, next_offset=2, rewound_from=Position(Lsn(6), 0), position=Position(Lsn(2), 0)))
    assert place.offsets == [2, 2]


def test_a_writer_that_finds_a_cursor_of_another_number_gives_way(place: Place) -> None:
    place.stand_at(4, 4)

    for producer in (
        TransactionalProducer(place.config, SINK),
        SeatedProducer(place.config, SINK, Seat(1, 3)),
        SeatedProducer(place.config, SINK, Seat(2, 3)),
    ):
        with pytest.raises(TransientError) as refused:
            producer.open()
        assert refused.value.code == "LANE_WRITERS_CHANGED"


def read_from(place: Place, offset: int) -> str:
    return f'{{"{place.config.raw_topic.name}": {{"0": {offset}}}}}'


def test_a_new_lane_begins_with_one_writer(place: Place) -> None:
    assert Start("earliest") == start_of(place.of(1), SINK)
    assert Start("earliest", 1, until=0) == start_of(place.of(3), SINK)


def test_a_number_changes_where_all_agree(place: Place) -> None:
    place.stand_at(4, 4)

    assert Start(read_from(place, 4), 3) == start_of(place.of(3), SINK)
    assert place.offsets == [4, 4, 4]
    assert Start(read_from(place, 4)) == start_of(place.of(1), SINK)
    assert place.offsets == [4]


def test_those_that_do_not_agree_run_up_to_the_furthest(place: Place) -> None:
    place.stand_at(4, 6)

    assert Start(read_from(place, 4), 2) == start_of(place.of(2), SINK)
    assert Start(read_from(place, 4), 2, until=6) == start_of(place.of(3), SINK)
    assert place.offsets == [4, 6]
    with pytest.raises(ConfigError) as refused:
        start_of(place.of(1, delivery="at_least_once"), SINK)
    assert refused.value.code == "WRITERS_APART"


def test_a_writers_cursor_that_is_missing_is_not_guessed(place: Place) -> None:
    first = TransactionalProducer(place.config, SINK)
    first.open()
    first.commit(replace(place.cursor(4), writers=2))

    with pytest.raises(StreamError) as lost:
        start_of(place.of(2), SINK)

    assert lost.value.code == "CURSOR_MISSING"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"delivery": "at_least_once"}, "WRITERS_UNSURE"),
        ({"transaction_topic": "transactions"}, "WRITERS_TRANSACTION_TOPIC"),
    ],
)
def test_what_does_not_go_with_several_writers_is_refused(options: dict[str, Any], code: str) -> None:
    url = "redis://127.0.0.1:1"
    with pytest.raises(ConfigError) as refused:
        check(configured("shop", "127.0.0.1:1", url, writers=2, options=options))

    assert [code] == [problem.code for problem in refused.value.problems]
    check(configured("shop", "127.0.0.1:1", url, writers=1, options=options))


def test_more_writers_than_there_are_slots_are_refused() -> None:
    url = "redis://127.0.0.1:1"
    sinks = [{"name": f"a{at}", "type": "kafka_topics", "trigger": "batch", "writers": 16} for at in range(5)]
    config = checked(document("shop", kafka="127.0.0.1:1", redis_url=url, sinks=sinks), secrets_of(redis_url=url))

    with pytest.raises(ConfigError) as refused:
        check(config)

    assert [problem.code for problem in refused.value.problems] == ["WRITERS_SLOTS"]
