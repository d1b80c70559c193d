"""A slot that can't be made yet: whose transaction it waits for is told while it waits."""

import json
import urllib.error
import urllib.request
from typing import Any

import psycopg
from kit.wait import wait

from tidegate.contracts.status import State


def readiness(port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz") as answer:
            return json.dumps(json.loads(answer.read()))
    except urllib.error.HTTPError as refused:
        return refused.read().decode()
    except OSError:
        return ""


def test_who_holds_up_a_slot_is_named_until_it_ends(fleet: Any, unused_port: int) -> None:
    with psycopg.connect(fleet.dsn) as long:
        long.execute("INSERT INTO orders (note) VALUES ('open')")
        pid = str(long.info.backend_pid)
        process = fleet.start(f"reader.http=127.0.0.1:{unused_port}")
        wait(lambda: f"the transaction of pid {pid}" in readiness(unused_port), 30, "readiness names it")
        assert any("slot_waits" in line and pid in line for line in fleet.log().splitlines())
        long.rollback()
    wait(lambda: (status := fleet.status()) and status.state is State.RUNNING, 30, "it runs then")
    assert process.poll() is None
    assert "the transaction of pid" not in readiness(unused_port)
