"""Flame graphs of Python and native frames, of a service at work on a backlog.

    python -m bench.profile reader|stage|lane        ROWS=n

reader: the reader's process. stage: the Python worker in which Spark runs the lane's stage. lane: every Python process
of the processor, the driver included. py-spy samples from outside, so what is measured is the service as it is shipped;
threads that wait are left out. The JVM's own frames are not seen. The graph is bench/results/latest/profile-<what>.svg.
"""

import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import psutil
from kit.wait import wait

from bench.contestants.base import Rig
from bench.contestants.tidegate import Realtime, Tidegate
from bench.measure.consumer import Reading, make_topics
from bench.results import LATEST
from bench.source import source_of
from bench.workloads import WARM_TABLE, wide
from tidegate.stack.kafka import Kafka
from tidegate.stack.postgres import Postgres
from tidegate.stack.redis import Redis

ROWS = int(os.environ.get("ROWS") or 1_000_000)
WARM_ROWS = 50_000
SAMPLES_A_SECOND = "250"
QUIET_SECONDS = 120.0
WRITE_SECONDS = 120.0
NAME = "profile"


def main() -> int:
    what = sys.argv[1] if len(sys.argv) == 2 else ""
    if what not in TARGETS:
        print(f"usage: python -m bench.profile {'|'.join(TARGETS)}", file=sys.stderr)
        return 2
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    target = LATEST / f"profile-{what}.svg"
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tidegate-profile-") as folder, ExitStack() as stack:
        base = Path(folder)
        base.chmod(0o755)
        servers = Postgres(base / "postgres"), Kafka(base / "kafka"), Redis(base / "redis")
        for server in servers:
            stack.callback(server.stop)
            server.start()
        postgres, kafka, redis = servers
        (base / NAME).mkdir()
        profiled(Rig(base / NAME, NAME, postgres, NAME, kafka, redis), what, target)
    print(target)
    return 0


def profiled(rig: Rig, what: str, target: Path) -> None:
    workload, contestant = wide(ROWS), Realtime(rig)
    topics = [rig.topic(WARM_TABLE), rig.topic("wide")]
    with source_of(rig.postgres, rig.database) as source, ExitStack() as stack:
        source.make_tables([workload])
        source.make_slot(rig.slot)
        make_topics(rig.kafka.bootstrap, topics)
        reading = Reading(rig.kafka.bootstrap, topics, alive=contestant.check)
        stack.callback(reading.close)
        stack.callback(contestant.kill)
        contestant.start()
        source.write_rows(WARM_TABLE, WARM_ROWS)
        assert reading.count(WARM_ROWS, [rig.topic(WARM_TABLE)], QUIET_SECONDS), "warm-up did not arrive"
        contestant.pause()
        source.write(workload)
        contestant.resume()
        pid, options = TARGETS[what](contestant)
        sampler = subprocess.Popen(_command(pid, options, target))
        assert reading.count(ROWS, [rig.topic("wide")], QUIET_SECONDS), "the backlog did not arrive"
        sampler.send_signal(signal.SIGINT)  # it writes its graph then
        sampler.wait(WRITE_SECONDS)
        contestant.stop()


def _command(pid: int, options: Sequence[str], target: Path) -> list[str]:
    program = str(Path(sys.executable).with_name("py-spy"))
    record = [program, "record", "--native", "--rate", SAMPLES_A_SECOND, "--pid", str(pid), "--duration", "unlimited"]
    return [*record, "--format", "flamegraph", "--output", str(target), *options]


def _reader(contestant: Tidegate) -> tuple[int, Sequence[str]]:
    return _pid(contestant.reader.pid), ()


def _stage(contestant: Tidegate) -> tuple[int, Sequence[str]]:
    """The daemon forks the worker; both are Python, and the daemon only waits."""
    processor = psutil.Process(_pid(contestant.processor.pid))

    def daemon() -> int | None:
        found = (each for each in processor.children(recursive=True) if "spark.daemon" in " ".join(each.cmdline()))
        return next((each.pid for each in found), None)

    return _pid(wait(daemon, 30, "Spark has a Python worker")), ("--subprocesses",)


def _lane(contestant: Tidegate) -> tuple[int, Sequence[str]]:
    return _pid(contestant.processor.pid), ("--subprocesses",)


def _pid(found: int | None) -> int:
    assert found is not None, "it does not run"
    return found


TARGETS: dict[str, Callable[[Tidegate], tuple[int, Sequence[str]]]] = {
    "reader": _reader,
    "stage": _stage,
    "lane": _lane,
}


if __name__ == "__main__":
    sys.exit(main())
