"""Draws every password and token of the compose stack once; each container gets only its own, in a volume of its own.

    docker compose run --rm secrets                                     what is missing is drawn
    docker compose run --rm -T secrets NAME SERVICE … < its.password     one of your own, as /run/tidegate/NAME there
    docker compose run --rm secrets operator.token                      the admin page's password
    docker compose run --rm secrets token NAME SCOPE …                  a token for somebody else, printed once

Invariant: what is there stays unless it is given, so a second run changes nothing, and a stack that has started is
never locked out. Where Prometheus finds services, and under whose pipeline's name, follows the pipeline's file.
"""

import hashlib
import json
import os
import secrets
import sys
from pathlib import Path

import yaml

from tidegate_admin.security.scopes import Scope
from tidegate_admin.security.tokens import create

ROOT = Path("/secrets")
DRAWN = ROOT / "drawn"
TOKENS = ROOT / "admin" / "tokens.json"
OPERATOR = "operator.token"
TIDEGATE = 10001
"""The user of Tidegate's own images. The others' users differ by image: their files are open, and their volumes are
mounted by nobody else."""
OWNERS = dict.fromkeys(("shop", "reader", "processor", "admin"), TIDEGATE)

PIPELINE = Path("/etc/tidegate/pipeline.yaml")
SCRAPED = {"reader": 8081, "processor": 8082}
# Written at each run: Redis' users follow this file, what is scraped follows the pipeline's.
FOLLOWED = ("users.acl", *(f"{service}.json" for service in SCRAPED))

# What each service does in Redis, and no more: docs/operations/security.md.
REDIS_USERS = {
    "reader": "%R~tidegate:* %RW~tidegate:*:reader %RW~tidegate:*:lineage %RW~tidegate:*:snapshots "
    "%RW~tidegate:*:snapshot:* %W~tidegate:*:audit &tidegate:* "
    "+@connection +@read +@write +@transaction +@pubsub -@dangerous +info",
    "processor": "%R~tidegate:* %RW~tidegate:*:ack %RW~tidegate:*:lane:* &tidegate:* "
    "+@connection +@read +@write +@transaction +@pubsub +eval +evalsha -@dangerous",
    "admin": "~tidegate:* &tidegate:* "
    "+@connection +@read +@write +@transaction +@pubsub +eval +evalsha -@dangerous +info",
}
# `redis-cli --user probe` may ask whether the server is there, and nothing else.
PROBE = "user default reset off\nuser probe reset on nopass +ping\n"


def main() -> None:
    match sys.argv[1:]:
        case []:
            _draw()
        case [name] if name == OPERATOR:
            print((ROOT / "admin" / OPERATOR).read_text())
        case ["token", name, *scopes]:
            _print_token(name, scopes)
        case [name, *services]:
            _take(name, services, sys.stdin.read().rstrip("\n"))


def _draw() -> None:
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
    _give_tokens(TOKENS)
    _give("prometheus", {f"{service}.json": _targets(service, port) for service, port in SCRAPED.items()})
    print("secrets: there")


def _take(name: str, services: list[str], password: str) -> None:
    unknown = [service for service in services if OWNERS.get(service) != TIDEGATE]
    if unknown or not services or not password or "/" in name:
        sys.exit("secrets: say NAME and for whom (reader, processor, admin), with the password on standard input")
    for service in services:
        _write(ROOT / service / name, password, TIDEGATE)
        print(f"secrets: {name} is given to {service}")


def _give_tokens(file: Path) -> None:
    """The service keeps digests; Prometheus may read, and who gets into the container may do everything. A token whose
    text is missing was lost on the way, and is drawn anew."""
    for container, text, name, scopes in (
        ("prometheus", "admin.token", "prometheus", frozenset({Scope.READ})),
        ("admin", OPERATOR, "operator", frozenset(Scope)),
    ):
        if not (ROOT / container / text).exists():
            _give(container, {text: create(file, name, scopes)[1]})
    _leave_to_admin(file)


def _print_token(name: str, scopes: list[str]) -> None:
    unknown = sorted(set(scopes) - set(Scope))
    if unknown or not scopes:
        sys.exit(f"secrets: a token has scopes of these: {', '.join(Scope)}")
    text = create(TOKENS, name, frozenset(map(Scope, scopes)))[1]
    _leave_to_admin(TOKENS)
    print(text)


def _leave_to_admin(file: Path) -> None:
    for path in file.parent.iterdir():
        os.chown(path, TIDEGATE, TIDEGATE)


def _targets(service: str, port: int) -> str:
    pipeline = yaml.safe_load(PIPELINE.read_text())["pipeline"]
    return json.dumps([{"targets": [f"{service}:{port}"], "labels": {"pipeline": pipeline}}])


def _drawn(name: str) -> str:
    path = DRAWN / name
    if not path.exists():
        _write(path, secrets.token_urlsafe(32), owner=0)
    return path.read_text()


def _acl(user: str, password: str) -> str:
    digest = hashlib.sha256(password.encode()).hexdigest()
    return f"user {user} reset on #{digest} {REDIS_USERS[user]}\n"


def _give(container: str, files: dict[str, str]) -> None:
    """A password that is there may be one of your own database."""
    for name, text in files.items():
        path = ROOT / container / name
        if name in FOLLOWED or not path.exists():
            _write(path, text, OWNERS.get(container))


def _write(path: Path, text: str, owner: int | None) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    part.chmod(0o444 if owner is None else 0o400)
    os.chown(part, owner or 0, owner or 0)
    part.replace(path)


if __name__ == "__main__":
    main()
