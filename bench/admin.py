"""The admin service with a thousand lanes and a million dead letters: how long any read takes, its memory, its start.

Statuses and acks are written every second, and dead letters once, by the contracts' own encoders; the service builds
its index of them itself. One caller asks for every read there is, one after the other and round after round, so that
what the service does once a second falls upon each of them; what is looked for in the log is somewhere else each time.
Only an answer that is the expected one has a speed. Of few samples there is no 99th percentile: a quick run says of how
many it tells the slowest.
"""

import json
import math
import os
import random
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg
from kit.fleet import Service, service
from kit.frames import RawLog
from kit.pipelines import free_port, secrets_of
from kit.wait import wait

from bench.admin_seeds import (
    FIRST_XID,
    FRAMES,
    LANES,
    LETTERS,
    NAME,
    PIPELINES,
    configurations,
    fill_source,
    fill_topics,
    playing,
)
from bench.figures import QUICK, Figure, report
from tidegate.lsn import Lsn, format_lsn
from tidegate.stack.up import Stack
from tidegate_admin.security import tokens
from tidegate_admin.security.scopes import Scope

ROUNDS = 1 if QUICK else 3
REPEATS = 25 if QUICK else 300
READ = f"slowest of {REPEATS}:" if QUICK else "p99"
PLACES = 97
"""So many LSNs and transactions are looked for, all over the log."""
STARTS = 1 if QUICK else 5
IDLE_SECONDS = 5.0 if QUICK else 20.0
SETTLE_SECONDS = 11.0
"""After that nobody has asked of late."""
GOAL_MS, GOAL_MB, GOAL_START_SECONDS = 50.0, 150.0, 3.0
GOAL_IDLE_PERCENT, GOAL_PAUSE_MS = 6.0, 20.0
PAUSE_SAMPLES = 300 if QUICK else 3_000
DEADLINE_SECONDS = 1_800.0
BASE = f"/api/v1/pipelines/{NAME}"
KEY = json.dumps({"id": "7"})


@dataclass
class Bench:
    process: Service
    client: httpx.Client
    log: RawLog
    highest: list[float] = field(default_factory=list)

    def start(self) -> float:
        """Seconds until it answers with every pipeline."""
        begun = time.monotonic()
        self.process.start()
        wait(self._answers, 60, f"the service answers:\n{self.process.log()[-2000:]}", every_seconds=0.01)
        return time.monotonic() - begun

    def rss(self) -> float:
        found = float(psutil.Process(self.process.pid).memory_info().rss) / 2**20
        self.highest.append(found)
        return found

    def cpu_seconds(self) -> float:
        spent = psutil.Process(self.process.pid).cpu_times()
        return float(spent.user + spent.system)

    def is_indexed(self) -> bool:
        self.rss()
        answer = self.client.get(f"{BASE}/dead-letters/counts")
        found: dict[str, Any] = answer.json() if answer.is_success else {}
        return bool(found.get("is_complete") and found["total"] == LETTERS)

    def _answers(self) -> bool:
        try:
            answer = self.client.get("/api/v1/pipelines")
        except httpx.TransportError:
            return False
        return answer.is_success and len(answer.json()["items"]) == PIPELINES


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, running(Path(folder)) as bench:
        cold = bench.start()
        begun, spent = time.monotonic(), bench.cpu_seconds()
        wait(bench.is_indexed, DEADLINE_SECONDS, "every dead letter is in the index", every_seconds=0.2)
        seconds, spent = time.monotonic() - begun, bench.cpu_seconds() - spent
        building = max(bench.highest)
        bench.process.stop()
        starts = [cold, *(_started_again(bench, is_last=at == STARTS - 1) for at in range(STARTS))]
        wait(bench.is_indexed, 60, "the index that was kept is level")
        idle = measure_idle(bench)
        pauses = measure_pauses(bench)
        reads = measure_reads(bench)
        after = bench.rss()
    worst = max(reads, key=lambda name: max(reads[name]))
    figures = [
        Figure("start to the first answer with all pipelines", "s", starts, GOAL_START_SECONDS),
        Figure("dead letters taken into the index", "/s", [LETTERS / seconds]),
        Figure("the same, CPU a million", "s", [spent * 1e6 / LETTERS]),
        Figure("highest RSS meanwhile", "MB", [building], GOAL_MB),
        Figure("nobody asks, CPU", "%", [idle], GOAL_IDLE_PERCENT),
        Figure("p99 of the least there is to ask, alone", "ms", [_p99(pauses)], GOAL_PAUSE_MS),
        *(Figure(f"{READ} {name}", "ms", reads[name], GOAL_MS) for name in sorted(reads)),
        Figure(f"of all reads, {READ} {worst}", "ms", reads[worst], GOAL_MS),
        Figure("RSS after all reads", "MB", [after], GOAL_MB),
    ]
    notes = {"lanes": str(PIPELINES * LANES), "letters": str(LETTERS), "asked each": str(ROUNDS * REPEATS)}
    report("admin", figures, ("tidegate", "tidegate-admin", "fastapi", "uvicorn", "aiokafka"), notes)


def measure_idle(bench: Bench) -> float:
    threading.Event().wait(SETTLE_SECONDS)
    before, begun = bench.cpu_seconds(), time.monotonic()
    threading.Event().wait(IDLE_SECONDS)  # What is measured is that nobody asks.
    return (bench.cpu_seconds() - before) / (time.monotonic() - begun) * 100


def measure_pauses(bench: Bench) -> list[float]:
    """It takes next to no work: what it waits for is what the service does by itself."""
    taken = []
    for _ in range(PAUSE_SAMPLES):
        taken.append(_ask(bench, "/ui/page.css"))
        threading.Event().wait(0.005)
    return taken


def measure_reads(bench: Bench) -> Mapping[str, list[float]]:
    """Of each read its p99 in each round, in milliseconds."""
    asked = reads_of(bench)
    found: dict[str, list[float]] = defaultdict(list)
    for paths in asked.values():
        _ask(bench, paths[0])
    for _ in range(ROUNDS):
        taken: dict[str, list[float]] = defaultdict(list)
        for number in range(REPEATS):
            for name, paths in asked.items():
                taken[name].append(_ask(bench, paths[number % len(paths)]))
        for name, runs in taken.items():
            found[name].append(_p99(runs))
    return found


def _p99(runs: Sequence[float]) -> float:
    return sorted(runs)[math.ceil(len(runs) * 0.99) - 1]


def reads_of(bench: Bench) -> dict[str, list[str]]:
    """By its name, the paths that are asked for in turn.

    Every GET there is but the stream, which has no end, and jobs; dead letters by each of their filters."""
    letters, now = f"{BASE}/dead-letters", 1_800_000_000_000_000
    page = bench.client.get(letters, params={"limit": 100}).json()
    cursor, letter = page["next_cursor"], page["items"][0]["id"]
    chance = random.Random(8)
    places = [chance.random() for _ in range(PLACES)]
    lsns = [format_lsn(Lsn(int(bench.log.safe_lsn * place))) for place in places]
    xids = [FIRST_XID + int(FRAMES * place) for place in places]
    own = {
        "": "", "/lanes": "/lanes", "/configuration": "/configuration",
        "/configuration/versions": "/configuration/versions",
        "/slots": "/slots", "/slots/{slot}": f"/slots/tidegate_{NAME}", "/publications": "/publications",
        "/publications/{publication}/tables": "/publications/mine/tables", "/snapshots": "/snapshots",
        "/changes": "/changes", "/source": "/source", "/source/schemas": "/source/schemas",
        "/source/tables": "/source/tables", "/source/table": "/source/table?schema=public&table=orders_7",
        "/frames": "/frames", "/frames/{offset}": "/frames/1000",
    }  # fmt: skip
    searched = {
        f"…{path} by {name}": [f"{BASE}{path}?{key}={value}" for value in values]
        for path in ("/frames", "/where-is")
        for name, key, values in (("LSN", "lsn", lsns), ("transaction", "xid", xids))
    }
    filters = {
        "": "", "/counts": "/counts", "/{letter}": f"/{letter}", ", next page": f"?limit=100&cursor={cursor}",
        " by lane": "?lane=lane_7", " by code": "?code=CODE_3", " by table": "?table=public.orders_3",
        " by lane and code": "?lane=lane_7&code=CODE_3", " by lane and table": "?lane=lane_7&table=public.orders_17",
        " by lane and a rare table": "?lane=lane_0&table=public.rare",
        " by lane, code and a rare table": "?lane=lane_0&code=CODE_3&table=public.rare",
        " by time": f"?since={now + 1000}&until={now + LETTERS // 2}", " of nobody": "?lane=lane_7&code=NOBODY",
        " by key": f"?table=public.orders&key={KEY}",
    }  # fmt: skip
    page_parts = ["/ui", "/ui/live", f"/ui/pipelines/{NAME}/dead-letters", f"/ui/pipelines/{NAME}/snapshots", "/docs"]
    single = (
        {f"…{name}": BASE + path for name, path in own.items()}
        | {f"…/dead-letters{name}": letters + path for name, path in filters.items()}
        | {path.replace(NAME, "…"): path for path in page_parts}
        | {path: path for path in ("/api/v1/pipelines", "/api/v1/sinks", "/healthz", "/readyz", "/metrics")}
        | {path: path for path in ("/openapi.json", "/ui/page.js", "/ui/page.css")}
    )
    return {name: [path] for name, path in single.items()} | searched


def _ask(bench: Bench, path: str) -> float:
    begun = time.perf_counter()
    answer = bench.client.get(path)
    taken = (time.perf_counter() - begun) * 1000
    if not answer.is_success:
        raise SystemExit(f"{path} answered {answer.status_code}: {answer.text[:300]}")
    return taken


def _started_again(bench: Bench, *, is_last: bool) -> float:
    seconds = bench.start()
    if not is_last and bench.process.stop() != 0:
        raise SystemExit("the service did not end cleanly")
    return seconds


@contextmanager
def running(folder: Path) -> Iterator[Bench]:
    folder.chmod(0o755)
    slots = {"max_replication_slots": str(PIPELINES + 4)}
    with Stack(folder, databases=["bench"], postgres_settings=slots) as stack:
        dsn, log = stack.postgres.dsn("bench"), RawLog()
        files, port = configurations(folder, stack, dsn), free_port()
        _, token = tokens.create(folder / "tokens.json", "bench", frozenset(Scope))
        environ = {**os.environ, **secrets_of(redis_url=stack.redis.url, postgres=dsn)}
        options = [part for file in files[1:] for part in ("--config", str(file))]
        options += ["--listen", f"127.0.0.1:{port}", "--tokens", str(folder / "tokens.json")]
        options += ["--state", str(folder / "state"), "--reads-a-second", "100000"]
        with psycopg.connect(dsn, autocommit=True) as source:
            fill_source(source)
        fill_topics(stack.kafka.bootstrap, log)
        with (
            playing(stack.redis.url, log),
            service("tidegate-admin", files[0], environ, options) as process,
            httpx.Client(
                base_url=f"http://127.0.0.1:{port}",
                headers={"Authorization": f"Bearer {token}"},
                timeout=30,
                trust_env=False,
            ) as client,
        ):
            yield Bench(process, client, log)


if __name__ == "__main__":
    main()
