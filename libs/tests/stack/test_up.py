"""The whole stack: in one directory, nothing left behind, everything kept."""

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import psycopg
import pytest
import redis as redis_client
from kit.wait import wait

from tidegate.errors import ConfigError
from tidegate.stack.identity import Identity
from tidegate.stack.redis import Redis
from tidegate.stack.server import ServerState
from tidegate.stack.up import Stack

pytestmark = pytest.mark.integration

PARENT = """
import json, sys
from tidegate.stack.up import Stack
with Stack(sys.argv[1], fsync=False) as stack:
    print(json.dumps([str(stack.postgres.data), *(server.pid for server in stack.servers)]), flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def state_dir(servers_dir: Path, prefix: str) -> Path:
    return servers_dir / prefix


def processes_of(*folders: Path | str) -> list[psutil.Process]:
    """Whatever names one of the folders in its command line or works in it; what may not be looked at is not ours."""
    found = []
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), process.cwd()]
        except psutil.Error:
            continue
        if process.pid != os.getpid() and any(str(folder) in word for folder in folders for word in words):
            found.append(process)
    return found


def test_a_start_and_a_stop_leave_no_process_and_all_data(state_dir):
    """The second start finds what the first one left, at the same addresses, and the order of states is told."""
    told: list[tuple[str, ServerState]] = []
    with Stack(
        state_dir, fsync=False, databases=["shop"], progress=lambda name, state, _: told.append((name, state))
    ) as first:
        with psycopg.connect(first.postgres.dsn("shop"), autocommit=True) as connection:
            connection.execute("CREATE TABLE kept (id int)")
        with redis_client.Redis.from_url(first.redis.url) as client:
            client.set("kept", "yes")
        addresses = [server.port for server in first.servers]
    assert processes_of(state_dir) == []
    assert [state for name, state in told if name == "kafka"] == [
        ServerState.PREPARING,
        ServerState.STARTING,
        ServerState.READY,
        ServerState.STOPPING,
        ServerState.STOPPED,
    ]
    with Stack(state_dir, fsync=False, databases=["shop"]) as second:
        assert addresses == [server.port for server in second.servers]
        with psycopg.connect(second.postgres.dsn("shop")) as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
        with redis_client.Redis.from_url(second.redis.url) as client:
            assert client.get("kept") == b"yes"


def test_kill_of_the_parent_leaves_no_orphan(state_dir):
    """All servers and their own children end by themselves, in order enough to start again."""
    argv = [sys.executable, "-c", PARENT, str(state_dir)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        data, *pids = json.loads(parent.stdout.readline())
        assert len(pids) == 3
        parent.kill()
    wait(lambda: processes_of(state_dir, data) == [], 30, "every server has ended")
    with Stack(state_dir, fsync=False) as stack:
        assert all(server.running for server in stack.servers)


def test_a_leftover_is_ended_by_the_next_start(state_dir):
    """Where the death of the parent did not reach a server, its pid file does."""
    first = Redis(state_dir)
    first.start()
    command = first.command()
    first.stop()
    with psutil.Popen(command.argv, stdout=subprocess.DEVNULL) as leftover:
        Identity.of(leftover.pid, command.argv).write(command.pid_file)
        wait(first.answers, 10, "the leftover answers")
        again = Redis(state_dir)
        again.start()
        assert leftover.wait(5) is not None
        assert again.port == first.port
        again.stop()


def test_a_directory_has_one_stack(state_dir):
    """A second one is refused, and the first does not notice."""
    with Stack(state_dir, fsync=False) as stack:
        with pytest.raises(ConfigError, match="STACK_IN_USE"):
            Stack(state_dir).start()
        assert stack.postgres.answers()


def test_a_killed_server_starts_again_at_the_same_address(postgres, kafka, redis):
    """A crash is recovered from what is on disk."""
    for server in (postgres, kafka, redis):
        port = server.port
        server.kill()
        assert not server.answers()
        server.start()
        assert server.answers()
        assert server.port == port


def test_passwords_are_asked_for_and_kept_private(postgres, redis, in_docker):
    """Nobody else on the machine gets in, or reads them."""
    wrong = postgres.dsn().replace(postgres.password, "guess")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(wrong)
    with redis_client.Redis(port=redis.port) as client, pytest.raises(redis_client.AuthenticationError):
        client.ping()
    if not in_docker:
        files = [*postgres.folder.glob("*.password"), redis.folder / "redis.password", redis.folder / "redis.conf"]
        assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
