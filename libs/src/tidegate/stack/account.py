"""As whom PostgreSQL runs, and where that account can read and write.

PostgreSQL refuses to run as root. As root it runs as an unprivileged account, which cannot pass through folders such
as /root: what it has to read is then copied once, and its data kept, in a folder of root's that everybody may pass
through.
"""

import hashlib
import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tidegate.errors import ConfigError
from tidegate.stack.process import Account

UNPRIVILEGED = "nobody"
OPEN_FOLDERS = (Path("/var/lib/tidegate"), Path("/var/tmp/tidegate"))  # noqa: S108 - the owner is checked


def unprivileged() -> Account | None:
    """None when this process is not root: then its own account will do."""
    if os.geteuid() != 0:
        return None
    name = os.environ.get("TIDEGATE_POSTGRES_ACCOUNT", UNPRIVILEGED)
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise ConfigError(
            f"there is no account {name}",
            code="STACK_NO_ACCOUNT",
            remedy="PostgreSQL does not run as root: name an existing account in TIDEGATE_POSTGRES_ACCOUNT.",
        ) from None
    return Account(name, entry.pw_uid, entry.pw_gid)


def can_pass(path: Path, account: Account | None) -> bool:
    """Whether the account can reach `path`: every folder above it and itself, as far as they exist."""
    if account is None:
        return True
    return all(_may_enter(folder.stat(), account) for folder in (path, *path.parents) if folder.is_dir())


def open_folder(account: Account) -> Path:
    """A folder of root's that the account may pass through and nobody else may write in."""
    for folder in OPEN_FOLDERS:
        try:
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            if folder.stat().st_uid == 0 and not folder.is_symlink():
                folder.chmod(0o755)
                if can_pass(folder, account):
                    return folder
        except OSError:
            continue
    raise ConfigError(
        f"no folder that the account {account.name} can reach",
        code="STACK_NO_FOLDER",
        remedy=f"Run as an ordinary user, or make {OPEN_FOLDERS[0]} writable for root and passable for all.",
    )


def readable_copy(folder: Path, companions: Sequence[Path], account: Account | None) -> Path:
    """`folder` itself where the account can read it, else its copy, with the companions at the same relative places."""
    if account is None or can_pass(folder, account):
        return folder
    base = Path(os.path.commonpath([folder.parent, *companions]))
    target = open_folder(account) / "install" / _fingerprint(folder)
    if not target.exists():
        target.parent.mkdir(mode=0o755, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=target.parent, prefix=".part-"))
        scratch.chmod(0o755)
        for part in (folder, *companions):
            shutil.copytree(part, scratch / part.relative_to(base), symlinks=True)
        _move_into_place(scratch, target)
    return target / folder.relative_to(base)


def _move_into_place(scratch: Path, target: Path) -> None:
    try:
        scratch.rename(target)
    except OSError:
        if not target.exists():
            raise
        shutil.rmtree(scratch)  # another start was quicker


def _fingerprint(folder: Path) -> str:
    program = folder / "bin" / "postgres"
    facts = f"{folder.resolve()} {program.stat().st_size} {program.stat().st_mtime_ns}"
    return f"{folder.name}-{hashlib.sha256(facts.encode()).hexdigest()[:12]}"


def _may_enter(found: os.stat_result, account: Account) -> bool:
    if found.st_uid == account.uid:
        return bool(found.st_mode & stat.S_IXUSR)
    if found.st_gid == account.gid:
        return bool(found.st_mode & stat.S_IXGRP)
    return bool(found.st_mode & stat.S_IXOTH)
