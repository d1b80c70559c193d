"""PostgreSQL 14 to 18, with the settings that the captures need."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kit.postgres_versions import binaries

from tidegate.stack.postgres import Postgres, PostgresInstall

MAJORS = (14, 15, 16, 17, 18)

SETTINGS = {
    "logical_decoding_work_mem": "64kB",
    "max_prepared_transactions": "10",
    "wal_sender_timeout": "0",
    "lc_monetary": "C",
}


@contextmanager
def server(major: int, folder: Path) -> Iterator[Postgres]:
    postgres = Postgres(folder, install=PostgresInstall(binaries(str(major))), fsync=False, settings=SETTINGS)
    postgres.start()
    try:
        yield postgres
    finally:
        postgres.stop()
