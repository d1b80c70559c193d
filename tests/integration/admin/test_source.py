"""Publications, discovery, configuration and idempotency on a real server."""

import uuid

import httpx
import pytest
from kit.admin_process import AdminPlace

ODD = 'odd "name" ; --'


@pytest.fixture
def client(place: AdminPlace) -> httpx.Client:
    return place.client()


def test_publications_say_what_they_publish(place: AdminPlace, client) -> None:
    found = {each["name"]: each for each in client.get(f"{place.base}/publications").json()["items"]}
    assert found["everything"]["all_tables"] is True
    assert found["mine"]["operations"] == ["insert", "update"]
    assert (found["mine"]["is_used"], found["everything"]["is_used"]) == (True, False)
    tables = client.get(f"{place.base}/publications/mine/tables").json()["items"]
    assert [(each["table"], each["identity"]) for each in tables] == [("orders", "primary_key"), ("typed", "full")]
    assert tables[1]["columns"] == ["id", "a"]


def test_tables_are_added_and_removed_whatever_their_name(place: AdminPlace, client) -> None:
    """A name is quoted in one place: what stands in it is never a command."""
    tables, body = f"{place.base}/publications/mine/tables", {"schema": "public", "table": ODD}
    added = client.post(tables, json=body)
    again = client.post(tables, json=body)
    listed = {each["table"] for each in client.get(tables).json()["items"]}
    refused = client.post(f"{tables}/remove", json=body | {"confirm": ODD})
    removed = client.post(f"{tables}/remove", json=body | {"confirm": f"public.{ODD}"})
    left = {each["table"] for each in client.get(tables).json()["items"]}
    assert (added.status_code, again.status_code, refused.status_code, removed.status_code) == (200, 409, 422, 200)
    assert ODD in listed
    assert left == {"orders", "typed"}


def test_a_table_whose_updates_would_fail_is_not_published_unless_that_is_said(place: AdminPlace, client) -> None:
    tables, body = f"{place.base}/publications/mine/tables", {"schema": "public", "table": "plain"}
    refused = client.post(tables, json=body)
    assert (refused.status_code, refused.json()["code"]) == (409, "TABLE_NO_IDENTITY")
    accepted = client.post(tables, json=body | {"accept_no_identity": True})
    assert accepted.status_code == 200
    client.post(f"{tables}/remove", json=body | {"confirm": "public.plain"})


def test_nothing_is_added_to_a_publication_of_all_tables(place: AdminPlace, client) -> None:
    body = {"schema": "public", "table": "plain"}
    answer = client.post(f"{place.base}/publications/everything/tables", json=body)
    assert (answer.status_code, answer.json()["code"]) == (409, "PUBLICATION_ALL")


def test_the_source_is_described_without_psql(place: AdminPlace, client) -> None:
    source = client.get(f"{place.base}/source").json()
    assert source["wal_level"] == "logical"
    assert [each["name"] for each in source["databases"] if each["is_pipelines"]] == [place.config.source.database]
    schemas = client.get(f"{place.base}/source/schemas").json()["items"]
    assert schemas == [{"name": "public", "tables": 4}]
    tables = {each["table"]: each for each in client.get(f"{place.base}/source/tables").json()["items"]}
    assert set(tables) == {"orders", "plain", "typed", ODD}
    assert tables["plain"]["identity"] == "nothing"
    assert tables["orders"]["publications"] == ["everything", "mine"]


def test_columns_say_how_an_event_holds_them(place: AdminPlace, client) -> None:
    """A domain of a domain is what it is made of."""
    asked = {"schema": "public", "table": "typed"}
    columns = client.get(f"{place.base}/source/table", params=asked).json()["columns"]
    assert {each["name"]: each["json_form"].partition(",")[0] for each in columns} == {
        "id": "number", "a": "number", "b": "embedded JSON", "c": "string", "d": "true or false", "e": "number",
        "f": "string", "g": "array", "h": "string",
    }  # fmt: skip
    assert all(each["is_key"] for each in columns)
    missing = client.get(f"{place.base}/source/table", params=asked | {"table": "none'--"})
    assert (missing.status_code, missing.json()["code"]) == (404, "TABLE_UNKNOWN")


def test_lists_come_in_pages_that_meet(place: AdminPlace, client) -> None:
    path, seen, cursor = f"{place.base}/source/tables", [], None
    while True:
        page = client.get(path, params={"limit": 1} | ({"cursor": cursor} if cursor else {})).json()
        seen += [each["table"] for each in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == sorted(seen)
    assert len(seen) == 4


@pytest.mark.parametrize("query", ["cursor=abc", "cursor=W10", "cursor=WzFd", "limit=0", "limit=-1", "limit=1e12"])
def test_an_absurd_page_is_refused(place: AdminPlace, client, query: str) -> None:
    assert client.get(f"{place.base}/source/tables?{query}").status_code in (400, 422)


def test_a_key_is_done_once(place: AdminPlace, client) -> None:
    slots, own, key = f"{place.base}/slots", place.config.source.slot.name, {"Idempotency-Key": uuid.uuid4().hex}
    first, second = client.post(slots, headers=key), client.post(slots, headers=key)
    other = client.post(f"{slots}/{own}/drop", json={"confirm": own}, headers=key)
    bad = client.post(slots, headers={"Idempotency-Key": "a b"})
    client.post(f"{slots}/{own}/drop", json={"confirm": own})
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json()
    assert second.headers["idempotency-replayed"] == "true"
    assert (other.status_code, other.json()["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert bad.status_code == 422


def test_a_refusal_is_not_kept_under_its_key(place: AdminPlace, client) -> None:
    slots, own, key = f"{place.base}/slots", place.config.source.slot.name, {"Idempotency-Key": uuid.uuid4().hex}
    drop = (f"{slots}/{own}/drop", {"confirm": own})
    assert client.post(drop[0], json=drop[1], headers=key).status_code == 404
    client.post(slots)
    assert client.post(drop[0], json=drop[1], headers=key).status_code == 200


def test_the_configuration_has_a_tag_and_no_secret(place: AdminPlace, client) -> None:
    path = f"{place.base}/configuration"
    answer = client.get(path)
    again = client.get(path, headers={"If-None-Match": f'"other", W/{answer.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    assert answer.json()["document"]["source"]["password"].startswith("${env:")
    for secret in place.environ.values():
        assert secret == "none" or secret not in answer.text


def test_every_mistake_of_a_configuration_is_told_at_once(place: AdminPlace, client) -> None:
    document = client.get(f"{place.base}/configuration").json()["document"]
    document["kafka"]["bootstrap"] = "nope"
    document["sinks"][0]["options"] = {"url": "http://169.254.169.254/"}
    verdict = client.post(f"{place.base}/configuration/validate", json={"document": document}).json()
    assert verdict["valid"] is False
    assert [each["pointer"] for each in verdict["problems"]] == ["kafka.bootstrap"]
    document["kafka"]["bootstrap"] = place.bootstrap
    verdict = client.post(f"{place.base}/configuration/validate", json={"document": document}).json()
    assert [(each["pointer"], each["code"]) for each in verdict["problems"]] == [
        ("sinks[0].options.url", "URL_REFUSED")
    ]


@pytest.mark.parametrize("text", ["&a [*a]", "a: &a [x,x]\nb: &b [*a,*a]", "!!python/object:os.system x", "\x00", "{"])
def test_yaml_that_bites_is_refused_and_not_run(place: AdminPlace, client, text: str) -> None:
    answer = client.post(f"{place.base}/configuration/validate", json={"text": text})
    assert answer.status_code == 200
    assert answer.json()["valid"] is False


def test_a_difference_says_what_it_takes(place: AdminPlace, client) -> None:
    document = client.get(f"{place.base}/configuration").json()["document"]
    document["raw_topic"]["linger"] = "9ms"
    document["sinks"][0]["required"] = False
    found = client.post(f"{place.base}/configuration/diff", json={"document": document}).json()
    changes = {each["path"]: each["effect"] for each in found["changes"]}
    assert set(changes) == {"raw_topic.linger", "sinks.events.required"}
    assert "reader" in changes["raw_topic.linger"]
    assert found["epoch_before"] != found["epoch_after"]
