"""Tokens in a file that the command writes and the service only reads: a digest each, never the token.

A token is `tg_<id>_<secret>`; the secret has 256 random bits, so one SHA-256 is as good as any slow hash, and whoever
reads the file can use none of them (docs/decisions/0030-tokens-in-a-file.md).

Invariant: a secret is compared by its digest and in constant time, also when there is no token of that id; a file that
cannot be believed lets nobody in.
"""

import fcntl
import hashlib
import hmac
import os
import re
import secrets
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from tidegate.errors import ConfigError
from tidegate.observability import logs
from tidegate_admin.security.scopes import Caller, Scope

TOKENS_VARIABLE = "TIDEGATE_ADMIN_TOKENS"
_LOOK_SECONDS = 1.0
LARGEST_BYTES = 2**20
_TOKEN = re.compile(r"tg_([0-9a-f]{12})_([A-Za-z0-9_-]{43})", re.ASCII)
_NOBODY = hashlib.sha256(b"").hexdigest()

_log = logs.get("tokens")


class Token(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    id: str = Field(pattern=r"^[0-9a-f]{12}$")
    name: str = Field(min_length=1, max_length=100)
    scopes: frozenset[Scope] = Field(min_length=1)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    created: int
    """Unix seconds."""
    expires: int | None = None

    @field_validator("sha256")
    @classmethod
    def _no_placeholder(cls, digest: str) -> str:
        if len(set(digest)) == 1 or digest == _NOBODY:
            raise ValueError("a placeholder")
        return digest

    def is_expired(self, now: float) -> bool:
        return self.expires is not None and now >= self.expires


class _File(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    version: Literal[1] = 1
    tokens: tuple[Token, ...] = Field((), max_length=10_000)


def draw(name: str, scopes: frozenset[Scope], expires: int | None = None) -> tuple[Token, str]:
    """The token as it is kept, and its text, which is shown once and never again."""
    identity, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    token = Token(
        id=identity, name=name, scopes=scopes, sha256=_digest(secret), created=int(time.time()), expires=expires
    )
    return token, f"tg_{identity}_{secret}"


def read_tokens(path: Path) -> tuple[Token, ...]:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"the tokens in {path} cannot be read ({type(error).__name__})",
            code="TOKENS_UNREADABLE",
            remedy="Make the file with `tidegate token create`, and let the service's user read it.",
        ) from error
    if mode & stat.S_IWOTH:
        raise ConfigError(
            f"everybody on this machine may write {path}", code="TOKENS_WRITABLE", remedy="chmod 600 the file."
        )
    return decode_tokens(data)


def decode_tokens(data: bytes) -> tuple[Token, ...]:
    try:
        return _File.model_validate_json(data[:LARGEST_BYTES]).tokens
    except ValidationError:
        raise ConfigError(
            "the file of tokens is malformed",
            code="TOKENS_MALFORMED",
            remedy="Write it with `tidegate token create` and `tidegate token revoke` only.",
        ) from None


def create(path: Path, name: str, scopes: frozenset[Scope], expires: int | None = None) -> tuple[Token, str]:
    with _changing(path) as tokens:
        token, text = draw(name, scopes, expires)
        _write(path, (*tokens, token))
    return token, text


def revoke(path: Path, identity: str) -> Token | None:
    with _changing(path) as tokens:
        found = next((token for token in tokens if token.id == identity), None)
        if found is not None:
            _write(path, [token for token in tokens if token is not found])
    return found


class TokenFile:
    """Read again when it has changed, so that a revoked token is refused within a second."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, ...] | None = None
        self._tokens: dict[str, Token] = {}
        self._next_look = 0.0

    def caller(self, text: str) -> Caller | None:
        self._look()
        match = _TOKEN.fullmatch(text)
        identity, secret = (match[1], match[2]) if match else ("", "")
        token = self._tokens.get(identity)
        is_right = hmac.compare_digest(_digest(secret), token.sha256 if token else _NOBODY)
        if token is None or not is_right or token.is_expired(time.time()):
            return None
        return Caller(token.id, token.name, token.scopes)

    def _look(self) -> None:
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_SECONDS
        try:
            status = self._path.stat()
            seen = (status.st_mtime_ns, status.st_size, status.st_ino)
            if seen != self._seen:
                self._tokens = {token.id: token for token in read_tokens(self._path)}
                self._seen = seen
        except (OSError, ConfigError):
            if self._tokens or self._seen:
                _log.error("tokens_unreadable", path=str(self._path))
            self._tokens, self._seen = {}, None


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


@contextmanager
def _changing(path: Path) -> Iterator[tuple[Token, ...]]:
    """One writer at a time; the lock is beside the file, because the file itself is replaced."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_name(f"{path.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield read_tokens(path) if path.exists() else ()
    except OSError as error:
        raise ConfigError(
            f"the tokens in {path} cannot be written ({type(error).__name__})",
            code="TOKENS_UNWRITABLE",
            remedy="Name a file with --file that you may write.",
        ) from error


def _write(path: Path, tokens: Sequence[Token]) -> None:
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=path.name, delete=False) as file:  # mode 0600
        file.write(_File(tokens=tuple(tokens)).model_dump_json(indent=2))
        file.flush()
        os.fsync(file.fileno())
    if path.exists():
        Path(file.name).chmod(stat.S_IMODE(path.stat().st_mode) & 0o660)
    Path(file.name).replace(path)
