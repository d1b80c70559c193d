"""A standby of a real server, made by pg_basebackup, whose slots are kept in step from PostgreSQL 17 on."""

from collections.abc import Mapping
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Any
from urllib.parse import urlsplit

import psycopg
from kit.postgres_versions import BUNDLED, binaries_or_skip
from kit.wait import wait

from tidegate.errors import TransientError
from tidegate.stack.account import readable_copy
from tidegate.stack.postgres import Postgres, PostgresInstall
from tidegate.stack.postgres_home import Cluster
from tidegate.stack.process import ChildProcess, Command, tail

PHYSICAL_SLOT = "standby_1"
BACKUP_SECONDS = 60.0
OLDEST_SYNC = 17


def install_of(major: str) -> PostgresInstall | None:
    """None is the bundled one. Skips the test where its binaries cannot be had."""
    return None if major == BUNDLED else PostgresInstall(binaries_or_skip(major))


class Standby(Postgres):
    """Follows `primary` from its first start until it is promoted. The password is the primary's."""

    def __init__(self, folder: Path, primary: Postgres, major: str, *, keeps_slots: bool = True) -> None:
        super().__init__(
            folder, install=install_of(major), fsync=False, settings=_settings(primary, int(major), keeps_slots)
        )
        self._primary = primary

    @property
    def password(self) -> str:
        return self._primary.password

    def _initdb(self, cluster: Cluster) -> None:
        """What a standby is made of in place of initdb. The bundled program also takes backups of older servers."""
        bundled = PostgresInstall.bundled()
        binaries = readable_copy(bundled.root, bundled.companions, self._account) / "bin"
        with cluster.being_made(self.password) as (scratch, _):
            child = ChildProcess(
                Command(
                    argv=(
                        str(binaries / "pg_basebackup"),
                        f"--pgdata={scratch}",
                        f"--dbname={self._primary.dsn()}",
                        "--checkpoint=fast",
                        "--no-sync",
                        "--create-slot",
                        f"--slot={PHYSICAL_SLOT}",
                    ),
                    log=self.folder / "basebackup.log",
                    pid_file=self.folder / "basebackup.pid.json",
                    folder=cluster.home,
                    account=self._account,
                )
            )
            child.start()
            child.exited.wait(BACKUP_SECONDS)
            if child.stop(((SIGTERM, 5.0), (SIGKILL, 5.0))) != 0:
                raise TransientError(" | ".join(tail(self.folder / "basebackup.log")), code="STACK_BASEBACKUP_FAILED")
            self._follow(scratch)

    def _follow(self, data: Path) -> None:
        (data / "standby.signal").touch()

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def has_slot(self, name: str) -> bool:
        """In step: what the primary would lose it would lose, too, and it stays when this server is promoted."""
        found = f"SELECT synced AND failover AND NOT temporary FROM pg_replication_slots WHERE slot_name = '{name}'"
        return self.sql(found) == [(True,)]

    def follow_slot(self, name: str) -> None:
        wait(lambda: self.has_slot(name), 60, f"slot {name} is in step on the standby")

    def follow(self, lsn: str) -> None:
        reached = f"SELECT pg_last_wal_receive_lsn() >= '{lsn}' AND pg_last_wal_replay_lsn() >= '{lsn}'"
        wait(lambda: self.sql(reached) == [(True,)], 30, f"the standby has {lsn}")

    def let_go(self) -> None:
        """Nothing of the primary reaches it any more."""
        self.sql("ALTER SYSTEM SET sync_replication_slots = off")
        self.sql("ALTER SYSTEM SET primary_conninfo = ''")
        self.sql("SELECT pg_reload_conf()")
        wait(lambda: self.sql("SELECT count(*) FROM pg_stat_wal_receiver") == [(0,)], 20, "nothing is received")

    def promote(self) -> None:
        assert self.sql("SELECT pg_promote(true, 60)") == [(True,)]

    def promote_again(self) -> None:
        """As if a standby of it, which has its slots, were promoted: the next timeline."""
        self.sql("ALTER SYSTEM SET sync_replication_slots = off")
        self.stop()
        self._follow(self.data)
        self.start()
        self.promote()


def _settings(primary: Postgres, major: int, keeps_slots: bool) -> Mapping[str, str]:
    parts = urlsplit(primary.dsn())
    kept = {"sync_replication_slots": "on" if keeps_slots else "off"} if major >= OLDEST_SYNC else {}
    return {
        "primary_conninfo": f"host={parts.hostname} port={parts.port} user={parts.username} password={parts.password} "
        "dbname=postgres",
        "primary_slot_name": PHYSICAL_SLOT,
        "hot_standby_feedback": "on",
        **kept,
    }
