"""Draws every password of the compose stack once, and gives each container only its own, in a volume of its own.

Invariant: what is there stays, so a second run changes nothing; the files differ in whom they are for, never in value.
"""

import hashlib
import os
import secrets
from pathlib import Path

ROOT = Path("/secrets")
REDIS_USERS = {
    "reader": "%R~tidegate:*:ack %RW~tidegate:*:reader %RW~tidegate:*:lineage &tidegate:* "
    "+@connection -@dangerous +get +set +hget +hgetall +subscribe +unsubscribe",
    "processor": "%RW~tidegate:*:ack %RW~tidegate:*:lane:* %R~tidegate:*:lineage &tidegate:* "
    "+@connection -@dangerous +get +set +hget +hset +hgetall +eval +publish",
    "admin": "~tidegate:* &tidegate:* +@connection +@read +@write +@pubsub +eval -@dangerous",
}
OWNERS = dict.fromkeys(("shop", "reader", "processor", "admin"), 10001)
"""Tidegate's own images run as this user."""
HEALTH = "user default reset off\nuser probe reset on nopass +ping\n"
"""`redis-cli --user probe` may ask whether the server is there, and nothing else."""


def main() -> None:
    drawn = {
        name: _drawn(name) for name in ("postgres", "tidegate", "shop", "admin-token", "grafana", "s3", *REDIS_USERS)
    }
    redis = {f"redis.{user}": drawn[user] for user in REDIS_USERS}
    for container, files in {
        "postgres": {"postgres.password": drawn["postgres"], "tidegate.password": drawn["tidegate"],
                     "shop.password": drawn["shop"]},
        "shop": {"shop.password": drawn["shop"]},
        "redis": {"users.acl": HEALTH + "".join(_acl(user, redis[f"redis.{user}"]) for user in REDIS_USERS)},
        "reader": {"postgres.password": drawn["tidegate"], "redis.password": drawn["reader"]},
        "processor": {"redis.password": drawn["processor"]},
        "admin": {"postgres.password": drawn["tidegate"], "redis.password": drawn["admin"],
                  "admin.token": drawn["admin-token"]},
        "prometheus": {"admin.token": drawn["admin-token"]},
        "grafana": {"grafana.password": drawn["grafana"]},
        "s3": {"s3.password": drawn["s3"]},
    }.items():  # fmt: skip
        for name, text in files.items():
            _write(ROOT / container / name, text, owner=OWNERS.get(container))
    print("secrets: there")


def _drawn(name: str) -> str:
    path = ROOT / "drawn" / name
    if not path.exists():
        _write(path, secrets.token_urlsafe(32), owner=0)
    return path.read_text()


def _acl(user: str, password: str) -> str:
    digest = hashlib.sha256(password.encode()).hexdigest()
    return f"user {user} reset on #{digest} {REDIS_USERS[user]}\n"


def _write(path: Path, text: str, owner: int | None = None) -> None:
    """Where the image's user is not known the file is open: only the container that it is for mounts its volume."""
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    part.chmod(0o444 if owner is None else 0o400)
    os.chown(part, owner or 0, owner or 0)
    part.replace(path)


if __name__ == "__main__":
    main()
