"""What a replay adds to contracts; see contract_examples."""

from collections.abc import Callable
from dataclasses import replace

from tidegate.contracts.dead_letter import DeadLetter, decode_dead_letter
from tidegate.contracts.request import Asked, LaneOutcome, LaneRequest, Result, decode_outcome, decode_request
from tidegate.contracts.resolution import Outcome, Resolution, decode_resolution

ID = "0b6cf5a8e0f24bd19f0c8a1f0e6f9a11"

Parts = tuple[object, bytes, Callable[[bytes], object]]


def replay_examples(letter: DeadLetter, purged: Resolution) -> dict[str, Parts]:
    now = purged.time
    request = LaneRequest(ID, Asked.REPLAY, "somebody", now, ids=purged.ids, is_forced=True, letters_from=12)
    outcome = LaneOutcome(ID, Result.DONE, now, fates={"delivered": list(purged.ids)})
    replayed = replace(purged, outcome=Outcome.REPLAYED, request=ID, lane="orders")
    changed = replace(letter, xid=750, commit_time=820_454_400_000_000, lsn=letter.position.commit_lsn)
    return {
        "lane-request-replay.json": (request, request.encode(), decode_request),
        "lane-outcome-replay.json": (outcome, outcome.encode(), decode_outcome),
        "resolution-v1-replayed.json": (replayed, replayed.encode(), decode_resolution),
        "dead-letter-v1-transaction.json": (changed, changed.encode(), decode_dead_letter),
    }
