"""Draws every password and token of the compose stack once; each container gets only its own, in a volume of its own.

Invariant: what is there stays, so a second run changes nothing, and a stack that has started is never locked out.
"""

import hashlib
import os
import secrets
from pathlib import Path

from tidegate_admin.security.scopes import Scope
from tidegate_admin.security.tokens import create

ROOT = Path("/secrets")
DRAWN = ROOT / "drawn"
TIDEGATE = 10001
"""The user of Tidegate's own images. The others' users differ by image: their files are open, and their volumes are
mounted by nobody else."""
OWNERS = dict.fromkeys(("shop", "reader", "processor", "admin"), TIDEGATE)

# What each service does in Redis, and no more: docs/operations/security.md.
REDIS_USERS = {
    "reader": "%R~tidegate:* %RW~tidegate:*:reader %RW~tidegate:*:lineage %RW~tidegate:*:snapshots "
    "%RW~tidegate:*:snapshot:* %W~tidegate:*:audit &tidegate:* "
    "+@connection +@read +@write +@transaction +@pubsub -@dangerous +info",
    "processor": "%R~tidegate:* %RW~tidegate:*:ack %RW~tidegate:*:lane:* &tidegate:* "
    "+@connection +@read +@write +@transaction +@pubsub +eval +evalsha -@dangerous",
    "admin": "~tidegate:* &tidegate:* +@connection +@read +@write +@transaction +@pubsub +eval +evalsha -@dangerous",
}
# `redis-cli --user probe` may ask whether the server is there, and nothing else.
PROBE = "user default reset off\nuser probe reset on nopass +ping\n"


def main() -> None:
    superuser, tidegate, shop = _drawn("postgres"), _drawn("tidegate"), _drawn("shop")
    redis = {user: _drawn(f"redis-{user}") for user in REDIS_USERS}
    _give("postgres", {"postgres.password": superuser, "tidegate.password": tidegate, "shop.password": shop})
    _give("shop", {"shop.password": shop})
    _give("redis", {"users.acl": PROBE + "".join(_acl(user, redis[user]) for user in REDIS_USERS)})
    _give("reader", {"postgres.password": tidegate, "redis.password": redis["reader"]})
    _give("processor", {"redis.password": redis["processor"]})
    _give("admin", {"postgres.password": tidegate, "redis.password": redis["admin"]})
    _give("grafana", {"grafana.password": _drawn("grafana")})
    _give("s3", {"s3.password": _drawn("s3")})
    _give_tokens(ROOT / "admin" / "tokens.json")
    print("secrets: there")


def _give_tokens(file: Path) -> None:
    """The service keeps digests; Prometheus may read, and who gets into the container may do everything."""
    if file.exists():
        return
    _give("prometheus", {"admin.token": create(file, "prometheus", frozenset({Scope.READ}))[1]})
    _give("admin", {"operator.token": create(file, "operator", frozenset(Scope))[1]})
    for path in file.parent.iterdir():
        os.chown(path, TIDEGATE, TIDEGATE)


def _drawn(name: str) -> str:
    path = DRAWN / name
    if not path.exists():
        _write(path, secrets.token_urlsafe(32), owner=0)
    return path.read_text()


def _acl(user: str, password: str) -> str:
    digest = hashlib.sha256(password.encode()).hexdigest()
    return f"user {user} reset on #{digest} {REDIS_USERS[user]}\n"


def _give(container: str, files: dict[str, str]) -> None:
    """Redis' users follow this file; a password that is there may be one of your own database."""
    for name, text in files.items():
        path = ROOT / container / name
        if name == "users.acl" or not path.exists():
            _write(path, text, OWNERS.get(container))


def _write(path: Path, text: str, owner: int | None) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    part.chmod(0o444 if owner is None else 0o400)
    os.chown(part, owner or 0, owner or 0)
    part.replace(path)


if __name__ == "__main__":
    main()
