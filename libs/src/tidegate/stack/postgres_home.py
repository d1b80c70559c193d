"""Where a cluster's data lies, and what must be true of the folder before the server starts in it.

Home is a folder that only the server's account may enter: inside the state directory where that account can get
there, else in a folder of root's, tied to the state directory by an id. A home whose state directory is gone is
removed.
"""

import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tidegate.errors import TransientError
from tidegate.stack.account import can_pass, open_folder
from tidegate.stack.process import Account

CONFIGURATION = "tidegate.conf"
SHARED_MEMORY = Path("/proc/sysvipc/shm")
SHARED_MEMORY_LINE = 6  # of postmaster.pid: key and id (src/include/utils/pidfile.h)
SETTLE_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Cluster:
    home: Path
    account: Account | None

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def made(self) -> bool:
        return (self.data / "PG_VERSION").exists()

    @contextmanager
    def being_made(self, password: str) -> Iterator[tuple[Path, Path]]:
        """A place for initdb and a file with the password; what stands there afterwards becomes the data directory."""
        scratch, password_file = self.home / "data.part", self.home / "password.part"
        shutil.rmtree(scratch, ignore_errors=True)
        try:
            password_file.touch(mode=0o600)
            password_file.write_text(password)
            self._give(password_file)
            yield scratch, password_file
        finally:
            password_file.unlink(missing_ok=True)
        with (scratch / "postgresql.conf").open("a") as stream:
            stream.write(f"include '{CONFIGURATION}'\n")
        scratch.rename(self.data)

    def configure(self, settings: Mapping[str, str]) -> None:
        """The folder is closed to others, and the file holds no secret: readable is right."""
        lines = (f"{name} = {_quoted(value)}\n" for name, value in settings.items())
        part = self.data / f"{CONFIGURATION}.part"
        part.write_text("".join(lines))
        part.chmod(0o644)
        part.replace(self.data / CONFIGURATION)

    def settle(self) -> None:
        """Waits for the sessions of a killed server to end; removes a lock file that names somebody else's process."""
        lock = self.data / "postmaster.pid"
        deadline = time.monotonic() + SETTLE_SECONDS
        while lock.exists() and _is_attached(_shared_memory_id(lock)):
            if time.monotonic() > deadline:
                raise TransientError(
                    "sessions of the server before still hold its memory",
                    code="STACK_POSTGRES_BUSY",
                    remedy=f"End the postgres processes that work in {self.data}.",
                )
            time.sleep(0.02)
        if lock.exists() and not self.is_served():
            lock.unlink()

    def is_served(self) -> bool:
        """Whether the process in the lock file is a server of this very directory."""
        try:
            pid = (self.data / "postmaster.pid").read_text().split()[0]
            return os.fsencode(self.data) in Path(f"/proc/{int(pid)}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError, IndexError):
            return False

    def _give(self, path: Path) -> None:
        if self.account:
            os.chown(path, self.account.uid, self.account.gid)

    def create_home(self) -> None:
        self.home.mkdir(mode=0o700, exist_ok=True)
        self._give(self.home)


def find_home(folder: Path, account: Account | None) -> Cluster:
    if account is None or can_pass(folder, account):
        cluster = Cluster(folder / "home", account)
    else:
        cluster = Cluster(_home_elsewhere(folder, account), account)
    cluster.create_home()
    return cluster


def _home_elsewhere(folder: Path, account: Account) -> Path:
    homes = open_folder(account) / "data"
    homes.mkdir(mode=0o755, exist_ok=True)
    _remove_forsaken(homes, account)
    link = folder / "home.id"
    if not link.exists() or _belongs_to_another(homes / link.read_text().strip(), folder):
        link.write_text(secrets.token_hex(8))
    place = homes / link.read_text().strip()
    place.mkdir(mode=0o755, exist_ok=True)
    (place / "origin").write_text(str(folder.resolve()))
    return place / "home"


def _belongs_to_another(place: Path, folder: Path) -> bool:
    """A copied state directory has the id of its original, whose home is in use or may be."""
    origin = place / "origin"
    return origin.exists() and Path(origin.read_text()) != folder.resolve()


def _remove_forsaken(homes: Path, account: Account) -> None:
    for place in homes.iterdir():
        try:
            link = Path((place / "origin").read_text()) / "home.id"
        except FileNotFoundError:
            continue
        forsaken = not link.exists() or link.read_text().strip() != place.name
        if forsaken and not Cluster(place / "home", account).is_served():
            shutil.rmtree(place, ignore_errors=True)


def _shared_memory_id(lock: Path) -> int | None:
    try:
        return int(lock.read_text().splitlines()[SHARED_MEMORY_LINE].split()[1])
    except (OSError, ValueError, IndexError):
        return None


def _is_attached(wanted: int | None) -> bool:
    if wanted is None or not SHARED_MEMORY.exists():
        return False
    header, *rows = (line.split() for line in SHARED_MEMORY.read_text().splitlines())
    identifier, attached = header.index("shmid"), header.index("nattch")
    return any(int(row[identifier]) == wanted and int(row[attached]) > 0 for row in rows)


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
