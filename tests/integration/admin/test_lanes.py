"""What is asked of a lane through the API, from the request to its outcome; the lane's driver is played by its desk."""

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kit.admin_process import AdminPlace
from kit.wait import wait

from tidegate.contracts import names
from tidegate.contracts.request import Asked, LaneRequest, decode_request
from tidegate.errors import StreamError
from tidegate.lsn import Lsn
from tidegate.position import before
from tidegate_admin.security.scopes import Scope
from tidegate_processor.desk import Desk


@pytest.fixture
def desk(place: AdminPlace) -> Iterator[Desk]:
    yield Desk(place.redis, place.config.pipeline, "events")
    place.redis.delete(names.lane_requests_key(place.config.pipeline, "events"))


def taken(desk: Desk) -> LaneRequest:
    return wait(desk.next, 10, "the request is there")


def test_a_pause_is_asked_once_done_and_told(place: AdminPlace, desk: Desk) -> None:
    client = place.client(Scope.OPERATE, Scope.READ)
    path, key = f"{place.base}/lanes/events", {"Idempotency-Key": uuid.uuid4().hex}
    answers = [client.post(f"{path}/pause", headers=key) for _ in range(2)]
    asked = answers[0].json()
    waiting = client.get(f"{path}/requests/{asked['id']}").json()

    request = taken(desk)
    assert desk.done(request, pause=True)

    assert [answer.status_code for answer in answers] == [202, 202]
    assert answers[1].json() == asked
    assert (request.id, request.asked, request.by) == (asked["id"], Asked.PAUSE, "test")
    assert waiting["result"] == "waiting"
    assert client.get(f"{path}/requests/{asked['id']}").json()["result"] == "done"
    assert desk.next() is None
    assert Desk(place.redis, place.config.pipeline, "events").next() is None
    assert desk.is_paused


def test_a_request_that_comes_twice_is_done_once(place: AdminPlace, desk: Desk) -> None:
    request = LaneRequest(uuid.uuid4().hex, Asked.RESUME, "test", 1)
    for _ in range(2):
        place.redis.rpush(names.lane_requests_key(place.config.pipeline, "events"), request.encode())
    assert desk.done(taken(desk), pause=False)
    assert (desk.next(), desk.is_paused) == (None, False)
    assert place.redis.llen(names.lane_requests_key(place.config.pipeline, "events")) == 0


def test_a_rewind_says_where_to_and_takes_one_place_and_the_name(place: AdminPlace, desk: Desk) -> None:
    client = place.client(Scope.OPERATE, Scope.READ)
    path = f"{place.base}/lanes/events/rewind"
    refused = [
        client.post(path, json=body).status_code
        for body in (
            {"confirm": "events"},
            {"commit_lsn": "0/10", "offset": 1, "confirm": "events"},
            {"commit_lsn": "0/10", "confirm": "other"},
        )
    ]
    assert client.post(path, json={"commit_lsn": "0/10", "confirm": "events"}).status_code == 202

    request = taken(desk)

    assert refused == [422, 422, 422]
    assert request.position == before(Lsn(0x10))
    assert desk.refuse(request, StreamError("too far", code="REWIND_TOO_FAR", remedy="Later."))
    told = client.get(f"{place.base}/lanes/events/requests/{request.id}").json()
    assert (told["result"], told["code"], told["remedy"]) == ("refused", "REWIND_TOO_FAR", "Later.")


def test_unknown_lanes_and_requests(place: AdminPlace) -> None:
    client = place.client(Scope.OPERATE, Scope.READ)
    found = [client.post(f"{place.base}/lanes/none/{what}").json()["code"] for what in ("pause", "resume")]
    found.append(client.get(f"{place.base}/lanes/events/requests/{'0' * 32}").json()["code"])
    assert found == ["LANE_UNKNOWN", "LANE_UNKNOWN", "LANE_REQUEST_UNKNOWN"]


def test_requests_that_nobody_takes_do_not_pile_up(place: AdminPlace, desk: Desk) -> None:
    client = place.client(Scope.OPERATE)
    answers = [client.post(f"{place.base}/lanes/events/resume") for _ in range(17)]
    assert [answer.status_code for answer in answers] == [202] * 16 + [503]
    assert answers[-1].json()["code"] == "LANE_REQUESTS_WAITING"


@contextmanager
def answering(place: AdminPlace, desk: Desk) -> Iterator[list[LaneRequest]]:
    """Everything is done that is asked for, but rewinds to an offset."""
    seen: list[LaneRequest] = []

    def serve() -> None:
        request = wait(desk.next, 30, "a command's request")
        seen.append(request)
        if request.offset is None:
            desk.done(request)
        else:
            desk.refuse(request, StreamError("ahead", code="REWIND_AHEAD", remedy="Earlier."))

    thread = threading.Thread(target=serve)
    thread.start()
    yield seen
    thread.join(30)


def test_commands_end_with_the_lanes_answer(place: AdminPlace, desk: Desk) -> None:
    with answering(place, desk) as paused:
        done = place.command("lane", "pause", "events", "--json")
    with answering(place, desk) as rewound:
        back = place.command("lane", "rewind", "events", "--since", "2026-01-01T00:00Z", "--yes")
    with answering(place, desk):
        refused = place.command("lane", "rewind", "events", "--offset", "7", "--yes")
    nobody = place.command("lane", "resume", "events", "--wait", "0")

    assert (done.returncode, json.loads(done.stdout)["result"]) == (0, "done"), done.stderr
    assert (back.returncode, rewound[0].since) == (0, 1_767_225_600_000_000), back.stderr
    assert paused[0].asked is Asked.PAUSE
    assert (refused.returncode, "REWIND_AHEAD" in refused.stderr) == (3, True)
    assert (nobody.returncode, "LANE_REQUEST_WAITING" in nobody.stderr) == (1, True), nobody.stderr


def test_what_stands_in_redis_is_a_sealed_request(place: AdminPlace, desk: Desk) -> None:
    place.client(Scope.OPERATE).post(f"{place.base}/lanes/events/resume")
    value = place.redis.lindex(names.lane_requests_key(place.config.pipeline, "events"), 0)
    assert isinstance(value, bytes)
    assert decode_request(value).asked is Asked.RESUME


def test_a_pipeline_pauses_by_a_request_to_each_lane(place: AdminPlace, desk: Desk) -> None:
    client = place.client(Scope.OPERATE, Scope.READ)
    asked = client.post(f"{place.base}/pause")
    request = taken(desk)
    assert desk.done(request, pause=True)
    with answering(place, desk) as resumed:
        done = place.command("pipelines", "resume", "--json")

    (item,) = asked.json()["items"]
    assert (asked.status_code, item) == (202, {"lane": "events", "id": request.id, "asked": "pause"})
    assert [each.asked for each in resumed] == [Asked.RESUME]
    assert (done.returncode, json.loads(done.stdout)["items"][0]["result"]) == (0, "done"), done.stderr


def test_a_sink_is_pinged_and_tried_by_its_lane(place: AdminPlace, desk: Desk) -> None:
    with answering(place, desk) as pinged:
        done = place.command("lane", "ping", "events", "--json")
    with answering(place, desk) as tried:
        assert place.command("lane", "trial", "events").returncode == 0
    listed = place.command("lane", "kinds", "--json")
    kinds = json.loads(listed.stdout)["items"]
    unknown = place.client(Scope.OPERATE).post(f"{place.base}/sinks/none/ping")
    assert ([each.asked for each in pinged + tried], done.returncode) == ([Asked.PING, Asked.TRIAL], 0), done.stderr
    assert "topic" in {each["type"]: each["options"] for each in kinds}["kafka_topics"], listed.stderr
    assert (unknown.status_code, unknown.json()["code"]) == (404, "LANE_UNKNOWN")
