"""Replays of dead letters: asked of their lanes in parts, and what has become of them by now.

Invariant: a replay's list of requests and the requests themselves are written in one transaction of Redis. From then on
the lanes do it, whoever asked may die, and every instance can tell how far it is.
"""

import json
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import groupby

import redis

from tidegate.clock import unix_microseconds
from tidegate.contracts.request import MOST_IDS, Asked, LaneOutcome, LaneRequest, Result
from tidegate.errors import ConfigError
from tidegate_admin.access import PipelineAccess
from tidegate_admin.dead_letters.entries import Chosen
from tidegate_admin.dead_letters.schemas import Refusal, ReplayProgress
from tidegate_admin.errors import ApiError
from tidegate_admin.lanes import requests
from tidegate_admin.store import store_unavailable

MOST_REPLAYED = 10_000
"""At once: as many as lie in lanes' lists without keeping other requests waiting for long."""
KEPT_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Terms:
    by: str
    to: str | None
    """A sink other than the letters' own."""
    is_forced: bool
    is_dry_run: bool


@dataclass(frozen=True, slots=True)
class Part:
    lane: str
    request: LaneRequest


def parts(chosen: Iterable[Chosen], terms: Terms) -> list[Part]:
    """Letters of one key stay in one part, as far as a part holds them: a lane refuses those that are overtaken."""
    ordered = sorted(chosen, key=lambda each: (each.lane, each.kin, each.place))
    made = []
    for lane, letters in groupby(ordered, key=lambda each: each.lane):
        for part in _cut(list(letters)):
            request = LaneRequest(
                uuid.uuid4().hex,
                Asked.REPLAY,
                terms.by,
                unix_microseconds(),
                ids=tuple(each.id for each in part),
                is_forced=terms.is_forced,
                is_dry_run=terms.is_dry_run,
                of_lane=lane if terms.to not in (None, lane) else "",
                letters_from=min(each.offset for each in part),
            )
            made.append(Part(terms.to or lane, request))
    return made


def _cut(letters: Sequence[Chosen]) -> Iterator[list[Chosen]]:
    part: list[Chosen] = []
    for _, kin in groupby(letters, key=lambda each: each.kin):
        family = list(kin)
        if part and len(part) + len(family) > MOST_IDS:
            yield part
            part = []
        while len(family) > MOST_IDS:
            yield family[:MOST_IDS]
            family = family[MOST_IDS:]
        part += family
    if part:
        yield part


async def start(of: PipelineAccess, made: Sequence[Part], terms: Terms) -> str:
    identity = uuid.uuid4().hex
    document = {
        "by": terms.by,
        "time": unix_microseconds(),
        "dry_run": terms.is_dry_run,
        "force": terms.is_forced,
        "requests": [{"lane": part.lane, "id": part.request.id, "letters": len(part.request.ids)} for part in made],
    }
    kept = _key(of, identity), json.dumps(document).encode(), KEPT_SECONDS
    await requests.put(of, [(part.lane, part.request) for part in made], kept)
    return identity


async def progress(of: PipelineAccess, identity: str) -> ReplayProgress:
    try:
        value = await of.redis.get(_key(of, identity))
    except (redis.RedisError, OSError, ConfigError) as error:
        raise store_unavailable(error) from error
    if not isinstance(value, bytes):
        raise _unknown()
    document = json.loads(value)
    fates: Counter[str] = Counter()
    ids: dict[str, list[str]] = {}
    refusals, answered = [], 0
    for each in document["requests"]:
        found = await _outcome(of, each["lane"], each["id"])
        if found.result is Result.WAITING:
            continue
        answered += each["letters"]
        if found.result is Result.REFUSED:
            refusal = Refusal(lane=each["lane"], letters=each["letters"], code=found.code, message=found.message)
            refusals.append(refusal.model_copy(update={"remedy": found.remedy}))
        for fate, letters in found.letters().items():
            fates[fate] += len(letters)
            ids.setdefault(fate, []).extend(letters)
    letters = sum(each["letters"] for each in document["requests"])
    return ReplayProgress(
        id=identity,
        by=document["by"],
        time=document["time"],
        dry_run=document["dry_run"],
        force=document["force"],
        letters=letters,
        answered=answered,
        done=answered == letters,
        fates=dict(fates),
        ids=ids,
        refusals=refusals,
    )


async def _outcome(of: PipelineAccess, lane: str, identity: str) -> LaneOutcome:
    try:
        return await requests.outcome(of, lane, identity)
    except ApiError as error:  # Redis was emptied meanwhile
        return LaneOutcome(identity, Result.REFUSED, 0, error.code, error.message, "Look which are open still.")


def _key(of: PipelineAccess, identity: str) -> str:
    return f"tidegate:{of.config.pipeline}:replay:{identity}"


def _unknown() -> ApiError:
    return ApiError(
        HTTPStatus.NOT_FOUND,
        "there is no such replay",
        code="REPLAY_UNKNOWN",
        remedy="It is kept for a day; GET …/changes lists what was asked for.",
    )
