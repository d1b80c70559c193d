"""Replays through the API: asked of lanes in parts, and told when they have answered; its desk plays the lane."""

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest
from kit.admin_process import AdminPlace
from kit.letters import make_letter
from kit.topics import append, make_topic
from kit.wait import wait

from tidegate.contracts import names
from tidegate.contracts.request import Asked, Fate, LaneRequest
from tidegate.errors import StreamError
from tidegate_admin.security.scopes import Scope
from tidegate_processor.desk import Desk

LETTERS = [make_letter(n % 700, id=f"{n:032x}", code=f"CODE_{n % 2}") for n in range(1400)]
"""Two of each row: the second one is newer."""


@pytest.fixture(scope="module")
def client(place: AdminPlace) -> httpx.Client:
    return place.client(Scope.READ, Scope.OPERATE)


@pytest.fixture(scope="module")
def letters(place: AdminPlace, client: httpx.Client) -> str:
    topic = f"tidegate.{place.config.pipeline}.dlq"
    make_topic(place.bootstrap, topic)
    append(place.bootstrap, topic, [letter.encode() for letter in LETTERS])
    path = f"{place.base}/dead-letters"
    wait(lambda: client.get(f"{path}/counts").json()["total"] == len(LETTERS), 20, "all are in the index")
    return path


@pytest.fixture
def desk(place: AdminPlace) -> Iterator[Desk]:
    yield Desk(place.redis, place.config.pipeline, "events")
    place.redis.delete(names.lane_requests_key(place.config.pipeline, "events"))


@contextmanager
def answering(desk: Desk, answer: Callable[[Desk, LaneRequest], bool], count: int) -> Iterator[list[LaneRequest]]:
    seen: list[LaneRequest] = []

    def serve() -> None:
        for _ in range(count):
            seen.append(wait(desk.next, 30, "a request"))
            answer(desk, seen[-1])

    thread = threading.Thread(target=serve)
    thread.start()
    yield seen
    thread.join(60)


def delivered(desk: Desk, request: LaneRequest) -> bool:
    return desk.done(request, fates=dict.fromkeys(request.ids, Fate.DELIVERED))


def test_many_are_asked_for_in_parts_that_keep_a_rows_letters_together(client, letters, desk: Desk) -> None:
    asked = client.post(f"{letters}/replay", json={"lane": "events", "table": "public.orders"})
    started = asked.json()
    before = client.get(f"{letters}/replays/{started['id']}").json()
    with answering(desk, delivered, 2) as seen:
        after = wait(
            lambda: (told := client.get(f"{letters}/replays/{started['id']}").json())["done"] and told, 30, "an answer"
        )

    assert (asked.status_code, started["letters"], started["is_cut"]) == (202, 1400, False)
    assert (before["answered"], before["done"], before["fates"]) == (0, False, {})
    assert (after["answered"], after["fates"]) == (1400, {"delivered": 1400})
    assert [request.asked for request in seen] == [Asked.REPLAY] * 2
    part_of = {identity: number for number, request in enumerate(seen) for identity in request.ids}
    assert len(part_of) == 1400
    assert all(part_of[LETTERS[n].id] == part_of[LETTERS[n + 700].id] for n in range(700))


def test_asked_for_twice_under_one_key_it_is_one_replay(place: AdminPlace, client, letters, desk: Desk) -> None:
    key = {"Idempotency-Key": uuid.uuid4().hex}
    body = {"ids": [LETTERS[0].id], "dry_run": True, "force": True}
    first, second = (client.post(f"{letters}/replay", json=body, headers=key) for _ in range(2))
    assert first.json() == second.json()
    assert place.redis.llen(names.lane_requests_key(place.config.pipeline, "events")) == 1
    request = wait(desk.next, 10, "the request")
    assert (request.ids, request.is_dry_run, request.is_forced) == ((LETTERS[0].id,), True, True)
    assert request.letters_from <= 0


def test_to_another_sink_its_lane_is_asked(place: AdminPlace, client, letters, desk: Desk) -> None:
    """There is no other sink here, and no lane of that name is asked."""
    answer = client.post(f"{letters}/replay", json={"ids": [LETTERS[0].id], "to": "nowhere"})
    assert (answer.status_code, answer.json()["code"]) == (404, "LANE_UNKNOWN")
    own = client.post(f"{letters}/replay", json={"ids": [LETTERS[0].id], "to": "events"})
    assert own.status_code == 202
    assert wait(desk.next, 10, "the request").of_lane == ""


def test_what_a_lane_refuses_is_told(client, letters, desk: Desk) -> None:
    def refuse(at: Desk, request: LaneRequest) -> bool:
        return at.refuse(request, StreamError("its cursor is gone", code="CURSOR_MISSING", remedy="Look."))

    started = client.post(f"{letters}/replay", json={"ids": [LETTERS[3].id]}).json()
    with answering(desk, refuse, 1):
        pass
    told = client.get(f"{letters}/replays/{started['id']}").json()
    assert (told["done"], told["refusals"][0]["code"], told["fates"]) == (True, "CURSOR_MISSING", {})


def test_nothing_is_asked_for_that_means_nothing(client, letters) -> None:
    bodies = [{}, {"ids": ["f" * 32]}, {"lane": "nobody"}]
    answers = [client.post(f"{letters}/replay", json=body) for body in bodies]
    codes = [(answer.status_code, answer.json()["code"]) for answer in answers]
    assert codes == [(422, "SELECTION_EMPTY"), (404, "DEAD_LETTER_UNKNOWN"), (404, "DEAD_LETTER_UNKNOWN")]
    assert client.get(f"{letters}/replays/{'0' * 32}").json()["code"] == "REPLAY_UNKNOWN"


def test_it_takes_the_scope_operate(place: AdminPlace, letters) -> None:
    refused = place.client(Scope.READ, Scope.DATA).post(f"{letters}/replay", json={"ids": [LETTERS[0].id]})
    assert refused.status_code == 403


def test_the_command_ends_when_the_lane_has_answered(place: AdminPlace, letters, desk: Desk) -> None:
    with answering(desk, delivered, 1):
        done = place.command("dlq", "replay", LETTERS[5].id, "--json")
    again = place.command("dlq", "progress", json.loads(done.stdout)["id"], "--json")
    nobody = place.command("dlq", "replay", LETTERS[5].id, "--wait", "0")
    assert (done.returncode, json.loads(done.stdout)["fates"]) == (0, {"delivered": 1}), done.stderr
    assert json.loads(again.stdout)["fates"] == {"delivered": 1}
    assert (nobody.returncode, "LANE_REQUEST_WAITING" in nobody.stderr) == (1, True), nobody.stderr


def test_more_than_lanes_take_at_once_are_asked_for_part_by_part(place: AdminPlace, client, letters, desk) -> None:
    many = [make_letter(n, id=f"{n:032x}", code="MANY", channel="public.many") for n in range(20_000, 30_300)]
    append(place.bootstrap, f"tidegate.{place.config.pipeline}.dlq", [letter.encode() for letter in many])
    wait(lambda: client.get(f"{letters}/counts").json()["total"] == len(LETTERS) + len(many), 60, "all are indexed")
    with answering(desk, delivered, 11) as seen:
        done = place.command("dlq", "replay", "--code", "MANY", "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["fates"], told["is_cut"]) == (0, {"delivered": len(many)}, False), done.stderr
    asked = [identity for request in seen for identity in request.ids]
    assert sorted(asked) == [letter.id for letter in many]
