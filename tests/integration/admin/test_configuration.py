"""A configuration is applied whole, by one who has seen what it follows; and gone back from."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
import yaml
from kit.admin_process import AdminPlace


@pytest.fixture
def client(place: AdminPlace) -> httpx.Client:
    return place.client()


def changed(place: AdminPlace, **more: object) -> str:
    document = yaml.safe_load(place.file.read_text())
    return "# a comment\n" + yaml.safe_dump(document | more)


def put(place: AdminPlace, client: httpx.Client, text: str, seen: str | None, confirm: str = "") -> httpx.Response:
    headers = {"If-Match": f'"{seen}"'} if seen else {}
    body = {"text": text, "confirm": confirm or place.config.pipeline}
    return client.put(f"{place.base}/configuration", json=body, headers=headers)


def versions(place: AdminPlace, client: httpx.Client) -> dict[str, object]:
    answer: dict[str, object] = client.get(f"{place.base}/configuration/versions").json()
    return answer


def test_it_is_applied_listed_and_gone_back_from(place: AdminPlace, client) -> None:
    original, tag = place.file.read_text(), client.get(f"{place.base}/configuration").headers["ETag"].strip('"')
    text = changed(place, raw_topic={"retention": "3d"})
    applied = put(place, client, text, tag)
    listed = versions(place, client)
    (first,) = [each["number"] for each in listed["items"] if each["by"] == "(file)"]  # type: ignore[attr-defined]
    path = f"{place.base}/configuration/versions/{first}"
    shown = client.get(path).json()
    body, match = {"confirm": place.config.pipeline}, {"If-Match": str(listed["digest"])}
    back = client.post(f"{path}/restore", json=body, headers=match)

    assert (applied.status_code, [each["path"] for each in applied.json()["changes"]]) == (200, ["raw_topic.retention"])
    assert applied.json()["changes"][0]["effect"] == "restart the reader and the processor"
    assert (shown["text"], shown["is_in_file"]) == (original, False)
    assert listed["epoch"] != listed["in_force"]
    assert (back.status_code, place.file.read_text()) == (200, original)
    assert versions(place, client)["epoch"] == listed["in_force"]


def test_it_follows_what_its_author_has_seen_or_nothing_happens(place: AdminPlace, client) -> None:
    before, digest = place.file.read_text(), str(versions(place, client)["digest"])
    text = changed(place, raw_topic={"retention": "4d"})
    refused = [
        put(place, client, text, None),
        put(place, client, text, "0" * 16),
        put(place, client, text, digest, "x"),
    ]
    assert [(each.status_code, each.json()["code"]) for each in refused] == [
        (428, "IF_MATCH_MISSING"),
        (412, "CONFIGURATION_CHANGED"),
        (422, "CONFIRM_MISMATCH"),
    ]
    assert place.file.read_text() == before


@pytest.mark.parametrize(
    ("more", "status", "code"),
    [
        ({"sinks": []}, 422, "CONFIG_INVALID"),
        ({"pipeline": "another"}, 409, "CONFIGURATION_FIXED"),
        ({"nonsense": 1}, 422, "CONFIG_INVALID"),
    ],
)
def test_what_would_be_refused_or_another_pipeline_is_not_written(
    place: AdminPlace, client, more: dict[str, object], status: int, code: str
) -> None:
    before, digest = place.file.read_text(), str(versions(place, client)["digest"])
    answer = put(place, client, changed(place, **more), digest)
    assert (answer.status_code, answer.json()["code"], place.file.read_text()) == (status, code, before)


def test_of_many_at_once_one_is_applied(place: AdminPlace, client) -> None:
    original, digest = place.file.read_text(), str(versions(place, client)["digest"])
    texts = [changed(place, raw_topic={"retention": f"{days}d"}) for days in range(5, 15)]
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda text: put(place, client, text, digest).status_code, texts))
    assert sorted(answers) == [200] + [412] * 9
    assert place.file.read_text() == texts[answers.index(200)]
    place.file.write_text(original)


def test_a_file_that_cannot_be_written_says_where_to_change_it(place: AdminPlace, client) -> None:
    """As in a container, where it is mounted to be read."""
    folder, digest = place.file.with_name(f"{place.file.name}.versions"), str(versions(place, client)["digest"])
    folder.mkdir(exist_ok=True)
    aside = folder.rename(folder.with_name("aside"))
    folder.write_text("no folder")
    try:
        answer = put(place, client, changed(place, raw_topic={"retention": "9d"}), digest)
    finally:
        folder.unlink()
        aside.rename(folder)
    assert (answer.status_code, answer.json()["code"]) == (409, "CONFIGURATION_READ_ONLY")


def test_the_commands(place: AdminPlace, tmp_path: Path) -> None:
    original, wanted = place.file.read_text(), tmp_path / "wanted.yaml"
    wanted.write_text(changed(place, raw_topic={"retention": "6d"}))
    told = place.command("config", "diff", str(wanted), "--json")
    done = place.command("config", "apply", str(wanted), "--yes", "--json")
    listed = json.loads(place.command("config", "history", "--json").stdout)
    (first,) = {each["number"] for each in listed["items"] if each["by"] == "(file)"}
    shown = place.command("config", "version", str(first))
    back = place.command("config", "rollback", str(first), "--yes", "--json")
    assert [each["path"] for each in json.loads(told.stdout)["changes"]] == ["raw_topic.retention"], told.stderr
    assert (done.returncode, json.loads(done.stdout)["version"]["is_in_file"]) == (0, True), done.stderr
    assert shown.stdout == original, shown.stderr
    assert (back.returncode, place.file.read_text()) == (0, original), back.stderr
