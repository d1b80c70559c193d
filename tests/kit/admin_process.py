"""The admin service as a process on real servers, with a token for every set of scopes a test asks for.

What the reader and lanes would say is written by the test itself, with the contracts: a state can then be held still.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg
import redis as redis_client
from kit.fleet import Service, service
from kit.pipelines import document, secrets_of, written
from kit.wait import wait

from tidegate.config.load import pipeline_from
from tidegate.config.pipeline import PipelineConfig
from tidegate_admin.security import tokens
from tidegate_admin.security.scopes import Scope

START_SECONDS = 30


@dataclass
class AdminPlace:
    url: str
    config: PipelineConfig
    file: Path
    environ: dict[str, str]
    source: psycopg.Connection[Any]
    redis: redis_client.Redis
    bootstrap: str
    process: Service
    tokens: Path
    _clients: list[httpx.Client] = field(default_factory=list)
    _known_token: str = ""

    @property
    def base(self) -> str:
        return f"/api/v1/pipelines/{self.config.pipeline}"

    def token(self, *scopes: Scope) -> str:
        return tokens.create(self.tokens, "test", frozenset(scopes or Scope))[1]

    def client(self, *scopes: Scope) -> httpx.Client:
        """Without scopes: with all of them."""
        headers = {"Authorization": f"Bearer {self.token(*scopes)}"}
        made = httpx.Client(base_url=self.url, headers=headers, timeout=15, trust_env=False)
        # A token that was just made is known within a second.
        wait(lambda: made.get("/api/v1/pipelines").status_code in (200, 403), 10, "the token is known")
        self._clients.append(made)
        return made

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`tidegate` with a token that the service knows already."""
        if not self._known_token:
            self._known_token = self.client().headers["Authorization"].removeprefix("Bearer ")
        environ = {"TIDEGATE_TOKEN": self._known_token, "TIDEGATE_URL": self.url, "NO_COLOR": "1"}
        line = [str(Path(sys.executable).with_name("tidegate")), *arguments]
        return subprocess.run(
            line, env=environ | {"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, timeout=110, check=False
        )

    def close(self) -> None:
        for client in self._clients:
            client.close()


@contextmanager
def admin_place(
    folder: Path, name: str, *, dsn: str, bootstrap: str, redis_url: str, options: tuple[str, ...] = (), **more: Any
) -> Iterator[AdminPlace]:
    """Started, and its first look taken."""
    values = document(name, kafka=bootstrap, redis_url=redis_url, postgres=dsn, **more)
    environ = secrets_of(redis_url=redis_url, postgres=dsn)
    file = written(folder, values)
    config = pipeline_from(values, (), environ)
    kept = folder / "tokens.json"
    tokens.create(kept, "first", frozenset(Scope))
    arguments = ("--tokens", str(kept), *options)
    with (
        service("tidegate-admin", file, environ, arguments) as process,
        psycopg.connect(dsn, autocommit=True) as source,
        redis_client.Redis.from_url(redis_url) as client,
    ):
        process.start()
        url = f"http://{config.admin.http}"
        place = AdminPlace(url, config, file, environ, source, client, bootstrap, process, kept)
        try:
            wait(lambda: _answers(url), START_SECONDS, f"the service answers:\n{process.log()}")
            yield place
        finally:
            place.close()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", trust_env=False).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False
