"""A pipeline whose slot is gone begins anew: what it remembers is deleted, on real servers, or nothing is."""

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace

import httpx
import pytest
from confluent_kafka.admin import AdminClient
from kit.admin import make_ack, make_lane, make_reader
from kit.admin_process import AdminPlace
from kit.frames import GENERATION, RawLog, row
from kit.topics import append, make_topic

from tidegate.contracts import names
from tidegate.contracts.frame import decode_header
from tidegate_admin.security.scopes import Scope

LONG_AGO = 1


def topics_of(name: str) -> list[str]:
    """In the order in which they are told; dead letters are another thing."""
    return [kind(name) for kind in (names.raw_topic, names.scratch_topic, names.schemas_topic, names.snapshots_topic)]


def topics(place: AdminPlace) -> set[str]:
    there = AdminClient({"bootstrap.servers": place.bootstrap}).list_topics(timeout=10).topics
    return {topic for topic in there if topic.startswith(f"tidegate.{place.config.pipeline}.")}


def keys(place: AdminPlace) -> set[str]:
    found = {key.decode() for key in place.redis.scan_iter(match=f"tidegate:{place.config.pipeline}:*")}
    return found - {names.audit_key(place.config.pipeline)}


@pytest.fixture
def client(place: AdminPlace) -> httpx.Client:
    return place.client()


@pytest.fixture
def left(place: AdminPlace) -> Iterator[int]:
    """By a pipeline that has delivered everything and was stopped long ago: its topics and keys. Up to which LSN."""
    name, log = place.config.pipeline, RawLog()
    log.epoch()
    log.transaction(row(1))
    end = decode_header(log.frames[-1]).safe_lsn
    for topic in {*topics_of(name), names.dead_letter_topic(name)} - topics(place):
        make_topic(place.bootstrap, topic)
    append(place.bootstrap, place.config.raw_topic.name, log.frames)
    place.redis.set(names.lineage_key(name), b"of the slot that is gone")
    place.redis.set(names.reader_status_key(name), reader(place, LONG_AGO))
    place.redis.set(names.lane_status_key(name, "events"), lane(place, LONG_AGO))
    place.redis.hset(names.ack_key(name, GENERATION.id), "events", ack(end))
    yield end
    for key in keys(place):
        place.redis.delete(key)


def ack(safe_lsn: int) -> bytes:
    return replace(make_ack(safe_lsn=safe_lsn), generation=GENERATION.id).encode()


def reader(place: AdminPlace, spoke: int) -> bytes:
    """That failed at its start: it does not say of which generation."""
    return make_reader(pipeline=place.config.pipeline, time=spoke, generation="").encode()


def lane(place: AdminPlace, spoke: int) -> bytes:
    return make_lane(pipeline=place.config.pipeline, time=spoke).encode()


def forget(place: AdminPlace, client: httpx.Client, headers: dict[str, str] | None = None, **more: object):
    body = {"confirm": place.config.pipeline, **more}
    return client.post(f"{place.base}/forget", json=body, headers=headers)


def test_what_a_pipeline_remembers_is_deleted_and_nothing_else(place: AdminPlace, client: httpx.Client, left) -> None:
    """Asked twice under one key it is done once; asked again, there is nothing left to do."""
    name, key = place.config.pipeline, {"Idempotency-Key": uuid.uuid4().hex}
    others = names.lineage_key(f"{name}-copy")
    place.redis.set(others, "x")
    expected = {"name": name, "topics": topics_of(name), "keys": len(keys(place))}

    done, repeated, again = forget(place, client, key), forget(place, client, key), forget(place, client)

    assert (done.status_code, done.json()) == (200, expected)
    assert repeated.json() == expected
    assert again.json() == {"name": name, "topics": [], "keys": 0}
    assert topics(place) == {names.dead_letter_topic(name)}
    assert {key for key in keys(place) if ":once:" not in key} == set()
    assert place.redis.delete(others) == 1
    entry = client.get(f"{place.base}/changes").json()["items"][0]
    assert (entry["operation"], entry["status"]) == ("forgetPipeline", 200)


def a_reader_speaks(place: AdminPlace, _end: int) -> None:
    place.redis.set(names.reader_status_key(place.config.pipeline), reader(place, time.time_ns() // 1000))


def a_lane_speaks(place: AdminPlace, _end: int) -> None:
    place.redis.set(names.lane_status_key(place.config.pipeline, "events"), lane(place, time.time_ns() // 1000))


def the_slot_is_there(place: AdminPlace, _end: int) -> None:
    place.source.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [place.config.source.slot.name])


def a_lane_lacks_the_end(place: AdminPlace, end: int) -> None:

    place.redis.hset(names.ack_key(place.config.pipeline, GENERATION.id), "events", ack(end - 1))


def nobody_knows_what_was_delivered(place: AdminPlace, _end: int) -> None:
    place.redis.delete(names.ack_key(place.config.pipeline, GENERATION.id))


@pytest.fixture
def slotless(place: AdminPlace) -> Iterator[None]:
    yield
    place.source.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s",
        [place.config.source.slot.name],
    )


@pytest.mark.parametrize(
    ("happens", "code"),
    [
        (a_reader_speaks, "PIPELINE_RUNNING"),
        (a_lane_speaks, "PIPELINE_RUNNING"),
        (the_slot_is_there, "SLOT_THERE"),
        (a_lane_lacks_the_end, "FORGET_LOSES"),
        (nobody_knows_what_was_delivered, "FORGET_LOSES"),
    ],
)
@pytest.mark.usefixtures("slotless")
def test_nothing_is_deleted_that_may_still_be_gone_on_from(
    place: AdminPlace, client: httpx.Client, left: int, happens: Callable[[AdminPlace, int], None], code: str
) -> None:
    happens(place, left)
    before = topics(place), keys(place)
    refused = forget(place, client)
    assert (refused.status_code, refused.json()["code"]) == (409, code)
    assert (topics(place), keys(place)) == before
    if code != "FORGET_LOSES":
        assert forget(place, client, accept_loss=True).json()["code"] == code


def test_what_lanes_lack_is_lost_only_on_purpose(place: AdminPlace, client: httpx.Client, left: int) -> None:
    a_lane_lacks_the_end(place, left)
    assert forget(place, client, accept_loss=True).status_code == 200
    assert topics(place) == {names.dead_letter_topic(place.config.pipeline)}


def test_one_that_was_cut_off_is_ended_by_asking_again(place: AdminPlace, client: httpx.Client, left: int) -> None:
    """Topics go first: a reader that starts between them and the lineage still refuses to begin anew."""
    a_lane_lacks_the_end(place, left)
    raw = place.config.raw_topic.name
    brokers = AdminClient({"bootstrap.servers": place.bootstrap})  # whose call ends with it
    brokers.delete_topics([raw])[raw].result(30)
    done = forget(place, client)
    assert (done.status_code, done.json()["topics"]) == (200, topics_of(place.config.pipeline)[1:])
    assert keys(place) == set()


def test_it_takes_the_name_typed_again_and_a_scope_of_its_own(
    place: AdminPlace, client: httpx.Client, left: int
) -> None:
    before = topics(place), keys(place)
    weaker = forget(place, place.client(Scope.READ, Scope.DATA, Scope.OPERATE))
    wrong = forget(place, client, confirm="another")
    unasked = place.command("pipelines", "forget", place.config.pipeline)
    assert (weaker.status_code, weaker.json()["code"]) == (403, "SCOPE_MISSING")
    assert (wrong.status_code, wrong.json()["code"]) == (422, "CONFIRM_MISMATCH")
    assert (unasked.returncode, "--yes" in unasked.stderr) == (2, True)
    assert (topics(place), keys(place)) == before


def test_the_command_tells_what_it_has_deleted(place: AdminPlace, left: int) -> None:
    done = place.command("pipelines", "forget", place.config.pipeline, "--yes")
    assert done.returncode == 0, done.stderr
    assert place.config.raw_topic.name in done.stdout
    unknown = place.command("pipelines", "forget", "another", "--yes")
    assert (unknown.returncode, "PIPELINE_UNKNOWN" in unknown.stderr) == (2, True)
