"""What stands beside an event, where the options ask for it: headers, and the record that lets compaction forget."""

import pytest
from kit.frames import ORDERS, RawLog, row
from kit.topics import inbox

from tidegate.pgoutput.messages import Delete, OldKind, Truncate, Update

RELATION = ORDERS.relation_id


@pytest.fixture
def log() -> RawLog:
    log = RawLog()
    log.epoch()
    moved = Update(RELATION, OldKind.KEY, (b"2", None), (b"3", b"moved"))
    log.transaction(row(1, "one"), row(2), moved, Delete(RELATION, OldKind.KEY, (b"1", None)))
    log.transaction(Truncate((RELATION,), 0))
    return log


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_behind_a_delete_and_nothing_else_comes_a_record_without_a_value(config, log, start, delivery: str) -> None:
    delivered = start(tombstones=True, delivery=delivery)

    delivered.feed(enumerate(log.frames))
    delivered.commit()

    with inbox(config.kafka.bootstrap, f"{config.pipeline}.public.orders") as received:
        messages = received.until(lambda found: len(found) >= 6, 20, "six records")
    found = [(message.key(), message.value() is None) for message in messages]
    assert found == [
        (b'{"id":1}', False),
        (b'{"id":2}', False),
        (b'{"id":3}', False),
        (b'{"id":1}', False),
        (b'{"id":1}', True),
        (None, False),
    ]


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_headers_say_what_and_where_without_a_look_into_the_value(config, log, start, delivery: str) -> None:
    delivered = start(headers=True, tombstones=True, delivery=delivery)

    delivered.feed(enumerate(log.frames))
    delivered.commit()

    with inbox(config.kafka.bootstrap, f"{config.pipeline}.public.orders") as received:
        messages = received.until(lambda found: len(found) >= 6, 20, "six records")
    headers = [dict(message.headers()) for message in messages]
    operations = [b"INSERT", b"INSERT", b"UPDATE", b"DELETE", b"DELETE", b"TRUNCATE"]
    assert [each["operation"] for each in headers] == operations
    assert [each["ordinal"] for each in headers] == [b"0", b"1", b"2", b"3", b"3", b"0"]
    assert {(each["schema"], each["table"]) for each in headers} == {(b"public", b"orders")}
    assert {each["commit_lsn"] for each in headers} == {b"0/1010", b"0/1050"}


def test_at_least_once_repeats_what_was_not_known_to_be_committed_and_no_more(config, log, start) -> None:
    first = start(delivery="at_least_once")
    first.feed(enumerate(log.frames[:2]))
    first.commit()
    first.close()

    second = start(incarnation=2, delivery="at_least_once")
    second.feed(enumerate(log.frames))
    second.commit()

    with inbox(config.kafka.bootstrap, f"{config.pipeline}.public.orders") as received:
        messages = received.until(lambda found: len(found) >= 5, 20, "five events")
    assert len(messages) == 5
