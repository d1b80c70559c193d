"""Dead letters from a real topic: found, shown, given up; and what the index says after it was lost."""

import json

import httpx
import pytest
from kit.admin_process import AdminPlace
from kit.letters import make_letter
from kit.topics import append, make_topic
from kit.wait import wait

from tidegate_admin.security.scopes import Scope

LETTERS = [make_letter(n, lane="events" if n % 2 else "search", code=f"CODE_{n % 3}") for n in range(30)]


@pytest.fixture(scope="module")
def client(place: AdminPlace) -> httpx.Client:
    return place.client()


@pytest.fixture(scope="module")
def letters(place: AdminPlace, client: httpx.Client) -> str:
    topic = f"tidegate.{place.config.pipeline}.dlq"
    make_topic(place.bootstrap, topic)
    append(place.bootstrap, topic, [letter.encode() for letter in LETTERS] + [b"no dead letter"])
    path = f"{place.base}/dead-letters"
    wait(lambda: client.get(f"{path}/counts").json()["total"] == 30, 20, "all are in the index")
    return path


def ids(client: httpx.Client, path: str, **query: str) -> set[str]:
    return {each["id"] for each in client.get(path, params={"limit": "500", **query}).json()["items"]}


def test_they_are_listed_by_what_they_have_in_common(client, letters) -> None:
    wanted = {letter.id for letter in LETTERS if letter.lane == "events" and letter.code == "CODE_1"}
    assert ids(client, letters, lane="events", code="CODE_1") == wanted
    assert ids(client, letters, table="public.none") == set()
    assert len(ids(client, letters, since=str(LETTERS[20].time))) == 10


def test_they_come_in_pages_newest_first(client, letters) -> None:
    first = client.get(letters, params={"limit": 20}).json()
    second = client.get(letters, params={"limit": 20, "cursor": first["next_cursor"]}).json()
    seen = [each["id"] for each in first["items"] + second["items"]]
    assert seen == [letter.id for letter in reversed(LETTERS)]


def test_one_is_found_by_its_key_and_only_with_the_scope_data(place: AdminPlace, client, letters) -> None:
    asked = {"table": "public.orders", "key": json.dumps({"id": "7"})}
    assert ids(client, letters, **asked) == {LETTERS[7].id}
    reading = place.client(Scope.READ)
    assert reading.get(letters, params=asked).status_code == 403
    listed = reading.get(letters)
    assert listed.status_code == 200
    assert "secret of row" not in listed.text


def test_one_is_shown_with_its_row(client, letters) -> None:
    shown = client.get(f"{letters}/{LETTERS[5].id}").json()
    assert shown["change"]["row"] == {"id": "5", "note": "secret of row"}
    assert (shown["frame_offset"], shown["code"], shown["lane"]) == (3, "CODE_2", "events")
    assert client.get(f"{letters}/{'0' * 32}").status_code == 404


def test_nothing_is_given_up_without_saying_how_many(client, letters) -> None:
    body = {"lane": "search", "code": "CODE_0"}
    there = client.post(f"{letters}/purge", json=body | {"dry_run": True}).json()
    refused = [
        client.post(f"{letters}/purge", json=body),
        client.post(f"{letters}/purge", json=body | {"confirm": there["letters"] + 1}),
    ]
    empty = client.post(f"{letters}/purge", json={"confirm": 30})
    assert (there["letters"], there["done"], there["is_cut"]) == (5, False, False)
    assert [answer.status_code for answer in refused] == [409, 409]
    assert (empty.status_code, empty.json()["code"]) == (422, "SELECTION_EMPTY")
    assert len(ids(client, letters)) == 30


def test_as_many_others_are_not_given_up(client, letters) -> None:
    """A dry run and a purge by filter mean the same ones, or nothing happens."""
    some, others = ({"lane": "search", "code": code} for code in ("CODE_0", "CODE_2"))
    first, second = (client.post(f"{letters}/purge", json=each | {"dry_run": True}).json() for each in (some, others))
    again = client.post(f"{letters}/purge", json=some | {"dry_run": True}).json()
    answers = [
        client.post(f"{letters}/purge", json=others | {"confirm": 5} | told)
        for told in ({}, {"digest": first["digest"]}, {"digest": "0" * 32})
    ]
    assert (first["letters"], second["letters"], first) == (5, 5, again)
    assert first["digest"] != second["digest"]
    assert [(each.status_code, each.json()["code"]) for each in answers] == [(409, "DIGEST_MISMATCH")] * 3
    assert len(ids(client, letters)) == 30


def test_what_is_given_up_stays_so_in_every_index(place: AdminPlace, client, letters) -> None:
    """Also in one that is built anew, and it is open again when its failure is found again."""
    gone, topic = make_letter(100), f"tidegate.{place.config.pipeline}.dlq"
    purge = {"ids": [gone.id], "confirm": 1}
    append(place.bootstrap, topic, [gone.encode()])
    wait(lambda: _total(client, letters) == 31, 20, "it is in the index")
    purged = client.post(f"{letters}/purge", json=purge)
    assert (purged.json()["letters"], purged.json()["done"]) == (1, True)
    assert gone.id not in ids(client, letters)
    place.process.kill()
    place.process.start()
    wait(lambda: _total(client, letters) == 30, 30, "a new index says the same")
    append(place.bootstrap, topic, [gone.encode()])
    wait(lambda: _total(client, letters) == 31, 20, "found again, it is open again")
    assert client.post(f"{letters}/purge", json=purge).json()["done"] is True


def _total(client: httpx.Client, letters: str) -> int | None:
    try:
        answer = client.get(f"{letters}/counts")
    except httpx.TransportError:
        return None
    return answer.json()["total"] if answer.status_code == 200 and answer.json()["is_complete"] else None
