"""Two instances at once: an action is done once by whichever is asked, and each can tell of the other's work."""

import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from kit.admin_process import AdminPlace
from kit.fleet import service
from kit.frames import RawLog, row
from kit.letters import make_letter
from kit.pipelines import free_port
from kit.topics import append, make_topic
from kit.wait import wait


@pytest.fixture(scope="module")
def both(place: AdminPlace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    first = place.client()
    file = tmp_path_factory.mktemp("second") / "pipeline.yaml"
    file.write_text(place.file.read_text())
    port = free_port()
    options = ("--tokens", str(place.tokens), "--listen", f"127.0.0.1:{port}")
    with service("tidegate-admin", file, place.environ, options) as process:
        process.start()
        headers = {"Authorization": first.headers["authorization"]}
        second = httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=15, trust_env=False)
        wait(lambda: _answers(second), 30, f"the second answers: {process.log()}")
        yield first, second
        second.close()


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/api/v1/pipelines").status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


def test_one_key_is_one_action_whoever_is_asked(place: AdminPlace, both) -> None:
    path, own, key = f"{place.base}/slots", place.config.source.slot.name, {"Idempotency-Key": uuid.uuid4().hex}

    def ask(number: int) -> tuple[int, bool]:
        answer = both[number % 2].post(path, headers=key)
        return answer.status_code, "idempotency-replayed" in answer.headers

    with ThreadPoolExecutor(10) as pool:
        told = Counter(pool.map(ask, range(20)))
    both[0].post(f"{path}/{own}/drop", json={"confirm": own})
    assert told[201, False] == 1
    assert set(told) <= {(201, False), (201, True), (409, False)}


def test_a_search_is_told_by_the_other_one(place: AdminPlace, both) -> None:
    log = RawLog()
    log.epoch()
    for number in range(5):
        log.transaction(row(number))
    append(place.bootstrap, place.config.raw_topic.name, log.frames)
    started = both[0].post(f"{place.base}/searches", json={"table": "public.orders", "key": {"id": "3"}}).json()
    path = f"{place.base}/searches/{started['id']}"
    wait(lambda: both[1].get(path).json()["state"] == "done", 20, "the other one tells its end")
    assert [each["offset"] for each in both[1].get(path).json()["matches"]] == [4]


def test_what_one_gives_up_is_gone_in_both(place: AdminPlace, both) -> None:
    topic, letters = f"tidegate.{place.config.pipeline}.dlq", f"{place.base}/dead-letters"
    make_topic(place.bootstrap, topic)
    append(place.bootstrap, topic, [make_letter(n).encode() for n in range(3)])
    for client in both:
        wait(lambda client=client: client.get(f"{letters}/counts").json()["total"] == 3, 30, "both have them")
    purge = {"ids": [make_letter(1).id], "confirm": 1}
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda client: client.post(f"{letters}/purge", json=purge).status_code, both))
    for client in both:
        wait(lambda client=client: client.get(f"{letters}/counts").json()["total"] == 2, 20, "both know")
    assert set(answers) <= {200, 409}
    assert 200 in answers
