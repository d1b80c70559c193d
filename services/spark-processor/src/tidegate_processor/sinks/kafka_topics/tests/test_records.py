"""What stands beside an event, where the options ask for it: headers, and the record that lets compaction forget."""

import json
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Message
from kit.frames import COMMIT_TIME, GENERATION, ORDERS, RawLog, row
from kit.topics import inbox

from tidegate.columns.snapshots import frame_of_rows
from tidegate.config.load import parse_options
from tidegate.config.sinks import SinkConfig, SinkType
from tidegate.contracts.frame import decode_frame, encode_frame
from tidegate.contracts.snapshot import decode_snapshot
from tidegate.lsn import parse_lsn
from tidegate.observability.trace_context import Sampler, trace_of
from tidegate.pgoutput.messages import Delete, OldKind, ReplicaIdentity, Truncate, Update
from tidegate.position import BEGINNING
from tidegate_processor.sinks.kafka_topics.config import KafkaTopicsOptions
from tidegate_processor.sinks.kafka_topics.encode import RecordEncoder

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
def test_where_a_key_is_nobodys_any_more_comes_a_record_without_a_value(config, log, start, delivery: str) -> None:
    delivered = start(tombstones=True, delivery=delivery)

    delivered.feed(enumerate(log.frames))
    delivered.commit()

    with inbox(config.kafka.bootstrap, f"{config.pipeline}.public.orders") as received:
        messages = received.until(lambda found: len(found) >= 7, 20, "seven records")
    found = [(message.key(), message.value() is None) for message in messages]
    assert found == [
        (b'{"id":1}', False),
        (b'{"id":2}', False),
        (b'{"id":3}', False),
        (b'{"id":2}', True),
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
        messages = received.until(lambda found: len(found) >= 7, 20, "seven records")
    headers = [dict(message.headers()) for message in messages]
    operations = [b"INSERT", b"INSERT", b"UPDATE", b"UPDATE", b"DELETE", b"DELETE", b"TRUNCATE"]
    assert [each["operation"] for each in headers] == operations
    assert [each["ordinal"] for each in headers] == [b"0", b"1", b"2", b"2", b"3", b"3", b"0"]
    assert {(each["schema"], each["table"]) for each in headers} == {(b"public", b"orders")}
    assert {each["commit_lsn"] for each in headers} == {b"0/1010", b"0/1050"}


FULL = replace(
    ORDERS, replica_identity=ReplicaIdentity.FULL, columns=tuple(replace(c, flags=1) for c in ORDERS.columns)
)


def compacted(messages: list[Message]) -> dict[bytes, bytes | None]:
    return {key: message.value() for message in messages if (key := message.key()) is not None}


def test_of_rows_that_change_keys_with_each_other_both_are_left(config, log, start) -> None:
    """By way of a third key, in one transaction: a key is forgotten before its next row comes."""
    steps = [(b"1", b"9"), (b"2", b"1"), (b"9", b"2")]
    log = RawLog()
    log.epoch()
    log.transaction(row(1, "one"), row(2, "two"))
    log.transaction(*(Update(RELATION, OldKind.KEY, (was, None), (now, b"swapped")) for was, now in steps))

    delivered = start(tombstones=True)
    delivered.feed(enumerate(log.frames))
    delivered.commit()

    with inbox(config.kafka.bootstrap, f"{config.pipeline}.public.orders") as received:
        left = compacted(received.until(lambda found: len(found) >= 8, 20, "eight records"))
    assert {key for key, value in left.items() if value is not None} == {b'{"id":1}', b'{"id":2}'}


def test_under_identity_full_the_row_before_is_forgotten_and_an_update_of_nothing_is_not(config, start) -> None:
    log = RawLog()
    log.epoch()
    same = Update(RELATION, OldKind.FULL, (b"1", b"a"), (b"1", b"a"))
    log.transaction(row(1, "a"), same, Update(RELATION, OldKind.FULL, (b"1", b"a"), (b"1", b"b")), relation=FULL)

    delivered = start(tombstones=True)
    delivered.feed(enumerate(log.frames))
    delivered.commit()

    with inbox(config.kafka.bootstrap, f"{config.pipeline}.public.orders") as received:
        messages = received.until(lambda found: len(found) >= 4, 20, "four records")
    assert [message.value() is None for message in messages] == [False, False, False, True]
    assert messages[3].key() == b'{"id":1,"note":"a"}'


def made(log: RawLog, ratio: float | None = None, **options: object) -> list[dict[str, Any]]:
    """The records of all frames, as the client is given them."""
    sink = SinkConfig(name="events", type=SinkType.KAFKA_TOPICS, options={"envelope": "cloudevents", **options})
    sampler = None if ratio is None else Sampler(ratio)
    encoder = RecordEncoder("shop", sink, parse_options(sink, KafkaTopicsOptions), sampler)
    frames = [decode_frame(frame) for frame in log.frames[1:]]
    encoded = [(frame, encoder.encode(frame, BEGINNING).topics) for frame in frames]
    return [record for frame, topics in encoded for events in topics for record in encoder.records(frame, events)]


def test_both_forms_of_a_cloudevent_say_the_same(log) -> None:
    """CloudEvents, Kafka protocol binding 1.0.2, section 3."""
    for whole, parts in zip(made(log), made(log, cloudevents_mode="binary"), strict=True):
        headers, event = dict(parts["headers"]), json.loads(whole["value"])
        assert parts["key"] == whole["key"] if "key" in whole else "key" not in parts
        assert whole["headers"] == [("content-type", b"application/cloudevents+json; charset=UTF-8")]
        assert headers.pop("content-type").decode() == event.pop("datacontenttype")
        assert json.loads(parts["value"]) == event.pop("data")
        assert {name.removeprefix("ce_"): value.decode() for name, value in headers.items()} == event


def test_a_row_of_a_snapshot_and_each_table_of_a_truncate_have_the_ids_of_both_forms() -> None:
    log = RawLog()
    log.epoch()
    people = replace(ORDERS, relation_id=RELATION + 1, name="people")
    log.transaction(Truncate((RELATION, RELATION + 1), 0), relations=(ORDERS, people))
    head, text = decode_snapshot(decode_frame(log.snapshot((b"1", b"a"), (b"2", b"b"), first_row=7)).body)
    rows = frame_of_rows(decode_frame(log.frames[-1]), head, text)
    log.frames[-1] = encode_frame(rows.header, rows.schema, (rows.body,))

    whole = [json.loads(record["value"]) for record in made(log)]
    parts = [dict(record["headers"]) for record in made(log, cloudevents_mode="binary")]

    assert [each["type"].rpartition(".")[2] for each in whole] == ["truncate", "truncate", "snapshot", "snapshot"]
    assert [each["ce_id"].decode() for each in parts] == [each["id"] for each in whole]
    assert [each["ce_time"].decode() for each in parts] == [each["time"] for each in whole]


def test_a_tombstone_is_no_cloudevent(log) -> None:
    records = made(log, tombstones=True, headers=True)

    tombstones = [record for record in records if record["value"] is None]
    assert [record["key"] for record in tombstones] == [b'{"id":2}', b'{"id":1}']
    assert {name for record in tombstones for name, _ in record["headers"]} == {
        "operation",
        "schema",
        "table",
        "commit_lsn",
        "ordinal",
    }
    assert all(record["headers"][0][0] == "content-type" for record in records if record["value"] is not None)


def test_the_content_type_arrives(config, log, start) -> None:
    delivered = start(envelope="cloudevents")
    delivered.feed(enumerate(log.frames))
    delivered.commit()

    with inbox(config.kafka.bootstrap, f"{config.pipeline}.public.orders") as received:
        messages = received.until(lambda found: len(found) >= 5, 20, "five records")
    assert {tuple(message.headers()) for message in messages} == {
        (("content-type", b"application/cloudevents+json; charset=UTF-8"),)
    }


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


def test_events_of_a_sampled_transaction_name_their_trace_and_no_other_header_changes() -> None:
    log = RawLog()
    log.epoch()
    for number in range(40):
        log.transaction(row(number, "a"), row(number + 100, "b"))
    plain, traced = made(log, headers=True), made(log, ratio=0.5, headers=True)

    seen = set()
    for before, after in zip(plain, traced, strict=True):
        lsn = parse_lsn(dict(before["headers"])["commit_lsn"].decode())
        is_sampled = Sampler(0.5).takes(lsn)
        context = trace_of(
            system_id=GENERATION.system_identifier, commit_lsn=lsn, xid=700, commit_time=COMMIT_TIME
        ).traceparent
        assert after["headers"] == before["headers"] + [("traceparent", context.encode())] * is_sampled
        seen.add(is_sampled)
    assert seen == {True, False}
    assert traced == made(log, ratio=0.5, headers=True)


def test_without_headers_no_event_names_its_trace(log) -> None:
    assert made(log, ratio=1.0) == made(log)


def test_a_row_of_a_snapshot_has_no_trace() -> None:
    log = RawLog()
    log.epoch()
    head, text = decode_snapshot(decode_frame(log.snapshot((b"1", b"a"))).body)
    rows = frame_of_rows(decode_frame(log.frames[-1]), head, text)
    log.frames[-1] = encode_frame(rows.header, rows.schema, (rows.body,))

    [record] = made(log, ratio=1.0, headers=True)
    assert "traceparent" not in dict(record["headers"])
