"""No secret and no row in an answer that is not for them, in the log, in a metric or on the page."""

import json

import pytest
from kit.admin_process import AdminPlace
from kit.frames import RawLog, row
from kit.letters import make_letter
from kit.topics import append, make_topic
from kit.wait import wait

from tidegate_admin.app import routes
from tidegate_admin.security.scopes import Scope, scope_of

CANARY = "canary-3f1c9"
# From the application itself, so that a new route cannot be forgotten.
READABLE = sorted(
    route.path for route in routes() if "GET" in (route.methods or ()) and scope_of(route.endpoint) is Scope.READ
)


@pytest.fixture(scope="module")
def filled(place: AdminPlace) -> AdminPlace:
    log = RawLog()
    log.epoch()
    log.transaction(row(1, CANARY))
    append(place.bootstrap, place.config.raw_topic.name, log.frames)
    make_topic(place.bootstrap, f"tidegate.{place.config.pipeline}.dlq")
    letter = make_letter(1, payload=log.frames[1][-60:-4] + CANARY.encode())
    append(place.bootstrap, f"tidegate.{place.config.pipeline}.dlq", [letter.encode(), make_letter(2).encode()])
    place.source.execute("INSERT INTO orders VALUES (900, %s)", [CANARY])
    client = place.client()
    wait(lambda: client.get(f"{place.base}/dead-letters/counts").json()["total"] == 2, 20, "they are in the index")
    return place


@pytest.mark.parametrize("path", READABLE)
def test_states_hold_no_row_and_no_secret(filled: AdminPlace, path: str) -> None:
    reading = filled.client(Scope.READ)
    known = {
        "name": filled.config.pipeline,
        "slot": filled.config.source.slot.name,
        "publication": "mine",
        "lane": filled.config.sinks[0].name,
        "identity": "0" * 32,
        "replay": "0" * 32,
        "snapshot": "0" * 32,
    }
    query = {"schema": "public", "table": "orders"} if path.endswith("/table") else {}
    query |= {"lsn": "FFFFFFF/0"} if path.endswith("/where-is") else {}
    answer = reading.get(path.format(**known), params=query)
    assert answer.status_code in (200, 404)
    for word in (CANARY, "secret of row", *secrets(filled)):
        assert word not in answer.text


def test_nothing_of_it_reaches_the_log_whatever_is_asked(filled: AdminPlace) -> None:
    client = filled.client()
    token = client.headers["authorization"].removeprefix("Bearer ")
    client.get(f"{filled.base}/frames/1")
    client.get(f"{filled.base}/dead-letters/{make_letter(2).id}")
    client.post(f"{filled.base}/searches", json={"table": "public.orders", "key": {"note": CANARY}})
    client.post(f"{filled.base}/slots/tidegate_none/drop", json={"confirm": CANARY})
    client.post(f"{filled.base}/configuration/validate", json={"text": f"pipeline: {CANARY}\npassword: {CANARY}"})
    client.post(f"{filled.base}/publications/mine/tables", content=json.dumps({"schema": CANARY}))
    told = filled.process.log()
    for word in (CANARY, "secret of row", token, token.split("_", 2)[2], *secrets(filled)):
        assert word not in told


def secrets(place: AdminPlace) -> list[str]:
    return [value for value in place.environ.values() if value != "none"]
