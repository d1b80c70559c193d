"""What an operator does to a running fleet, by API and command alone: snapshots, held changes, dead letters."""

import json
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Message
from kit.admin_process import AdminPlace, admin_place
from kit.fleet import Service, service, spark_jars
from kit.servers import drop_database
from kit.topics import inbox, limit_records, make_topic
from kit.wait import wait

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
START_SECONDS, SECONDS = 240, 60
ROWS = 12_000
ROWS_A_SECOND = 1_000
LONG_ROWS = 90_000
"""A command takes some seconds to start on a busy machine, and three of them meet one snapshot."""
SNAPSHOT = {"mode": "initial", "max_rows_per_second": ROWS_A_SECOND, "transaction": "100ms"}
# Wide enough that the table is more than one piece: progress is told by the piece.
TABLES = f"""
CREATE TABLE orders (id int PRIMARY KEY, note text);
INSERT INTO orders SELECT n, rpad('row ' || n, 100) FROM generate_series(1, {ROWS}) n;
CREATE TABLE blobs (id int PRIMARY KEY, blob text);
CREATE TABLE marks (id serial PRIMARY KEY);
CREATE TABLE ledger (id int PRIMARY KEY, note text);
"""
SMALL, LARGE = 600_000, 2_000_000
LETTERS = 12


@dataclass
class Fleet:
    place: AdminPlace
    reader: Service
    client: httpx.Client

    @property
    def snapshots(self) -> str:
        return f"{self.place.base}/snapshots"

    @property
    def letters(self) -> str:
        return f"{self.place.base}/dead-letters"

    def snapshot(self, identity: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(f"{self.snapshots}/{identity}").json()
        return found

    def stage(self, lsn: str) -> tuple[str, str | None]:
        found = self.client.get(f"{self.place.base}/where-is", params={"lsn": lsn}).json()
        return found["stage"], found["held_by"]

    def initial(self) -> dict[str, Any] | None:
        """Once it is done."""
        items = self.client.get(self.snapshots).json()["items"]
        return next((each for each in items if each["kind"] == "initial" and each["state"] == "done"), None)

    def insert(self) -> str:
        """A row; an LSN that its transaction ends behind."""
        with self.place.source.transaction():
            self.place.source.execute("INSERT INTO marks DEFAULT VALUES")
            found = self.place.source.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        assert found is not None
        return str(found[0])

    @contextmanager
    def held_still(self, process: Service) -> Iterator[None]:
        os.kill(process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(process.pid, signal.SIGCONT)


@pytest.fixture(scope="module")
def fleet(postgres, kafka, redis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    name = f"t{uuid.uuid4().hex[:12]}"
    dsn, folder = postgres.ensure_database(name), tmp_path_factory.mktemp("operator")
    servers = {"dsn": dsn, "bootstrap": kafka.bootstrap, "redis_url": redis.url}
    make_topic(kafka.bootstrap, f"{name}.public.blobs", largest_bytes=SMALL)
    try:
        with admin_place(folder, name, **servers, snapshot=SNAPSHOT) as place:
            place.source.execute(TABLES.encode())
            environ = place.environ | spark_jars()
            with (
                service("tidegate-reader", place.file, environ) as reader,
                service("tidegate-processor", place.file, environ) as processor,
            ):
                processor.start()
                reader.start()
                fleet = Fleet(place, reader, place.client())
                wait(fleet.initial, START_SECONDS, "the snapshot at the start is done")
                yield fleet
    finally:
        drop_database(postgres.dsn(), name)


def test_rows_that_were_there_are_read_at_the_start_and_again_on_request(fleet: Fleet) -> None:
    """The reader's own word all the way: from the request to each table's rows."""
    first = fleet.initial()
    line = ["snapshot", "start", "public.orders", "--where", f"public.orders: id > {ROWS // 4}", "--follow", "--json"]
    code, told, seen = at_a_terminal(fleet.place, *line)

    again = json.loads(told)
    percents, of_the_table = (
        [float(each) for each in re.findall(rf"(?:{bar})[^%\n]*?(\d+\.\d)%", seen)]
        for bar in ("waiting|running|done", r"public\.orders")
    )
    assert first is not None
    assert (first["rows"], first["percent"]) == (ROWS, 100.0)
    assert (code, again["kind"], again["state"], again["by"]) == (0, "requested", "done", "test"), seen
    assert (again["rows"], again["tables_done"]) == (ROWS - ROWS // 4, 1)
    assert [(each["table"], each["state"], each["rows"]) for each in again["by_table"]] == [
        ("public.orders", "done", ROWS - ROWS // 4)
    ]
    assert any(0 < each < 100 for each in percents), "the bar has moved"
    assert percents == sorted(percents)
    assert of_the_table == sorted(of_the_table)


def test_a_snapshot_pauses_goes_on_and_ends_when_it_is_told_to(fleet: Fleet) -> None:
    command = fleet.place.command
    rows = "INSERT INTO ledger SELECT n, rpad('row ' || n, 100) FROM generate_series(1, %s) n"
    fleet.place.source.execute(rows, [LONG_ROWS])
    started = json.loads(command("snapshot", "start", "public.ledger", "--json").stdout)["snapshot"]
    wait(lambda: fleet.snapshot(started)["rows"] > 0, SECONDS, "it has begun")
    paused = command("snapshot", "pause", started)
    wait(lambda: fleet.snapshot(started)["state"] == "paused", SECONDS, "it is paused")
    stood = fleet.snapshot(started)
    resumed = command("snapshot", "resume", started)
    wait(lambda: fleet.snapshot(started)["rows"] > stood["rows"], SECONDS, "it goes on")
    cancelled = command("snapshot", "cancel", started, "--yes")
    wait(lambda: fleet.snapshot(started)["state"] == "cancelled", SECONDS, "it has ended")
    over = fleet.client.post(f"{fleet.snapshots}/{started}/pause")

    assert [each.returncode for each in (paused, resumed, cancelled)] == [0, 0, 0], paused.stderr + resumed.stderr
    assert 0 < stood["percent"] < 100
    assert (over.status_code, over.json()["code"]) == (409, "SNAPSHOT_OVER")


def test_where_is_names_the_stage_that_each_stop_holds_a_change_at(fleet: Fleet) -> None:
    """The reader, the lane, the reader again behind the lane: each is stopped in its turn, and let go."""
    with fleet.held_still(fleet.reader):
        first = fleet.insert()
        wait(lambda: fleet.stage(first) == ("wal", None), SECONDS, "it waits for the reader")
    wait(lambda: fleet.stage(first)[0] == "confirmed", SECONDS, "it has come through")

    assert fleet.place.command("lane", "pause", "events").returncode == 0
    second = fleet.insert()
    wait(lambda: fleet.stage(second) == ("lane", "events"), SECONDS, "it waits for the lane")
    paused = "lane by events: paused"
    wait(lambda: paused in fleet.place.command("where-is", second).stdout, SECONDS, "the command says why")
    with fleet.held_still(fleet.reader):
        assert fleet.place.command("pipelines", "resume").returncode == 0
        wait(lambda: fleet.stage(second) == ("slot", None), SECONDS, "it waits for the slot")
    wait(lambda: fleet.stage(second)[0] == "confirmed", SECONDS, "it has come through")

    assert fleet.stage("FFFFFFF/0")[0] == "unwritten"


def test_replayed_twice_and_given_up_at_once_each_letter_is_delivered_once_or_never(fleet: Fleet) -> None:
    for number in range(LETTERS):
        fleet.place.source.execute("INSERT INTO blobs VALUES (%s, repeat('x', 700000))", [number])
    counts = f"{fleet.letters}/counts"
    wait(lambda: fleet.client.get(counts).json()["total"] == LETTERS, SECONDS, "they are dead letters")
    listed = [each["id"] for each in fleet.client.get(fleet.letters).json()["items"]]
    row_of = {each: fleet.client.get(f"{fleet.letters}/{each}").json()["change"]["row"]["id"] for each in listed}
    topic = f"{fleet.place.config.pipeline}.public.blobs"
    limit_records(fleet.place.bootstrap, topic, LARGE)

    def replay(_: int) -> dict[str, Any]:
        started = fleet.client.post(f"{fleet.letters}/replay", json={"lane": "events"}).json()
        place = f"{fleet.letters}/replays/{started['id']}"
        wait(lambda: fleet.client.get(place).json()["done"], SECONDS, "the lane has answered")
        told: dict[str, Any] = fleet.client.get(place).json()
        return told

    def give_up(identity: str) -> int:
        return fleet.client.post(f"{fleet.letters}/purge", json={"ids": [identity], "confirm": 1}).status_code

    with ThreadPoolExecutor(5) as pool:
        replays = [pool.submit(replay, number) for number in range(2)]
        purges = [pool.submit(give_up, identity) for identity in listed[::2]]
        told, codes = [each.result() for each in replays], {each.result() for each in purges}
    delivered = [identity for each in told for identity in each["ids"].get("delivered", ())]
    wait(lambda: fleet.client.get(counts).json()["total"] == 0, SECONDS, "none is open")
    fleet.place.source.execute("INSERT INTO blobs VALUES (%s, 'last')", [LETTERS])
    with inbox(fleet.place.bootstrap, topic) as box:
        rows = inserted(box.until(lambda found: LETTERS in inserted(found), SECONDS, "the last one"))

    assert [each["refusals"] for each in told] == [[], []]
    assert codes <= {200, 409}, "409: it was delivered meanwhile, and nothing is meant any more"
    assert len(delivered) == len(set(delivered)), "none is delivered by both"
    assert sorted(rows) == sorted([*(int(row_of[each]) for each in delivered), LETTERS])
    assert set(delivered) >= set(listed[1::2]), "what nobody gave up is delivered"


def inserted(messages: list[Message]) -> list[int]:
    events = [json.loads(each.value() or b"{}") for each in messages]
    return [each["payload"]["row"]["id"] for each in events if each["operation"] == "INSERT"]


def at_a_terminal(place: AdminPlace, *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout, and what a person sees beside it."""
    token = place.client().headers["Authorization"].removeprefix("Bearer ")
    environ = {"TIDEGATE_TOKEN": token, "TIDEGATE_URL": place.url, "TERM": "xterm", "PATH": "/usr/bin:/bin"}
    mine, its = os.openpty()
    line = [str(Path(sys.executable).with_name("tidegate")), *arguments]
    with subprocess.Popen(line, env=environ, stdout=subprocess.PIPE, stderr=its) as process:
        os.close(its)
        seen = b""
        try:
            while piece := os.read(mine, 65536):
                seen += piece
        except OSError:  # the other side is closed
            pass
        os.close(mine)
        assert process.stdout is not None
        told = process.stdout.read()
    return process.returncode, told.decode(), seen.decode(errors="replace")
