"""Captures what PostgreSQL 14 to 18 send under protocols 1 to 4, and what test_decoding says of the same WAL.

    PYTHONPATH=tests:tools python tools/capture_pgoutput.py [MAJOR …]

Invariant: every session of a major sees the same WAL, live: a server does not stream what it knows to be undone.
The sessions pin what shapes a text, the database is hostile to it (DateStyle, TimeZone …).
"""

import lzma
import select
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from kit.captures import FOLDER, save
from pgoutput_scenario import HOSTILE, Scenario
from pgoutput_servers import MAJORS, server
from psycopg import pq
from psycopg.conninfo import make_conninfo

from tidegate.lsn import Lsn
from tidegate.pgoutput import encode_status

SECONDS = 60.0
PINS = " ".join(
    f"-c {setting}"
    for setting in (
        "DateStyle=ISO",
        "IntervalStyle=postgres",
        "extra_float_digits=3",
        "TimeZone=UTC",
        "bytea_output=hex",
        "client_encoding=UTF8",
        "lc_monetary=C",
    )
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A session: its protocol and options, from the major on that has them."""

    name: str
    options: str
    two_phase: bool = False


def kinds(major: int) -> Iterator[Kind]:
    yield Kind("v1", "proto_version '1'")
    yield Kind("v1-binary", "proto_version '1', binary 'true'")
    yield Kind("v2", "proto_version '2', streaming 'on'")
    if major >= 15:
        yield Kind("v3", "proto_version '3', streaming 'on', two_phase 'on'", two_phase=True)
    if major >= 16:
        yield Kind("v4", "proto_version '4', streaming 'parallel', two_phase 'on'", two_phase=True)


class Session:
    """One START_REPLICATION, read by a thread of its own until the last message of the scenario."""

    def __init__(self, dsn: str, kind: Kind, last: bytes) -> None:
        self.kind = kind
        self._last = last
        self.payloads: list[bytes] = []
        self._link = pq.PGconn.connect(make_conninfo(dsn, replication="database", options=PINS).encode())
        options = f"({kind.options}, publication_names 'p', messages 'on')"
        started = self._link.exec_(f"START_REPLICATION SLOT {_slot(kind.name)} LOGICAL 0/0 {options}".encode())
        if started.status != pq.ExecStatus.COPY_BOTH:
            raise SystemExit(f"{kind.name}: {started.error_message.decode()}")
        self._thread = threading.Thread(target=self._read, name=kind.name)
        self._thread.start()

    def _read(self) -> None:
        ends = False
        while not ends:
            self._link.consume_input()
            size, data = self._link.get_copy_data(1)
            if size > 0:
                self.payloads.append(bytes(data))
                ends = self.payloads[-1][25:26] == b"C" and any(self._last in each for each in self.payloads[-2:-1])
            elif size < 0 or not select.select([self._link.socket], [], [], SECONDS)[0]:
                return

    def has(self, marker: bytes) -> bool:
        return any(marker in payload for payload in list(self.payloads))

    def finish(self) -> None:
        self._thread.join(SECONDS)
        zero = Lsn(0)
        self._link.put_copy_data(encode_status(write=zero, flush=zero, apply=zero, clock=0))
        self._link.finish()


def _slot(kind: str) -> str:
    return "s_" + kind.replace("-", "_")


def capture(major: int) -> None:
    with tempfile.TemporaryDirectory(prefix="capture-") as folder, server(major, Path(folder)) as postgres:
        Path(folder).chmod(0o755)
        postgres.ensure_database("captured")
        with psycopg.connect(postgres.dsn(), autocommit=True) as control:
            for setting, value in HOSTILE.items():
                control.execute(f"ALTER DATABASE captured SET {setting} = '{value}'")
        dsn = make_conninfo(postgres.dsn("captured"))
        with _prepared(dsn, major) as (control, sessions, scenario):
            scenario.run(control, dsn, lambda marker: _wait(sessions, marker))
            for session in sessions:
                session.finish()
            lines = control.execute(
                "SELECT data FROM pg_logical_slot_get_changes('other', NULL, NULL, 'include-xids', '1')"
            ).fetchall()
    for session in sessions:
        save(FOLDER / f"{major}-{session.kind.name}.xz", session.payloads)
        print(major, session.kind.name, len(session.payloads), sum(map(len, session.payloads)))
    save_text(FOLDER / f"{major}.test_decoding.xz", [line for (line,) in lines])


def save_text(path: Path, lines: list[str]) -> None:
    path.write_bytes(lzma.compress("\0".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME))


@contextmanager
def _prepared(dsn: str, major: int) -> Iterator[tuple[psycopg.Connection[Any], list[Session], Scenario]]:
    scenario = Scenario(major)
    with ExitStack() as stack:
        control = stack.enter_context(psycopg.connect(dsn, autocommit=True, options=PINS))
        scenario.set_up(control)
        control.execute("SELECT pg_create_logical_replication_slot('other', 'test_decoding')")
        wanted = list(kinds(major))
        for kind in wanted:
            arguments = "'pgoutput', false, true" if kind.two_phase else "'pgoutput'"
            control.execute(f"SELECT pg_create_logical_replication_slot('{_slot(kind.name)}', {arguments})")
        yield control, [Session(dsn, kind, scenario.last) for kind in wanted], scenario


def _wait(sessions: list[Session], marker: bytes) -> None:
    """Until every session that streams has been sent it."""
    deadline = time.monotonic() + SECONDS
    streaming = [session for session in sessions if "streaming" in session.kind.options]
    while not all(session.has(marker) for session in streaming):
        if time.monotonic() > deadline:
            raise SystemExit(f"{marker!r} was never streamed")
        time.sleep(0.05)


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for major in map(int, sys.argv[1:] or MAJORS):
        capture(major)


if __name__ == "__main__":
    main()
