"""The rule every ack store obeys: within a generation an ack only grows; a lower or foreign write is refused."""

from enum import StrEnum

from tidegate.contracts.ack import Ack


class AckOutcome(StrEnum):
    ACCEPTED = "accepted"
    LOWER = "lower"
    """The stored ack is above this one; nothing was written."""
    FOREIGN = "foreign"
    """It claims more than the stored ack in the name of an older epoch: it read frames that are void."""


def compare(stored: Ack | None, new: Ack) -> AckOutcome:
    """What the script in Redis does, said once in Python: the reference that script is tested against."""
    if stored is None:
        return AckOutcome.ACCEPTED
    if new.position < stored.position or new.safe_lsn < stored.safe_lsn:
        return AckOutcome.LOWER
    if new.topic_id == stored.topic_id and new.epoch < stored.epoch:  # epochs count within one topic
        same_place = (new.position, new.safe_lsn) == (stored.position, stored.safe_lsn)
        return AckOutcome.LOWER if same_place else AckOutcome.FOREIGN
    return AckOutcome.ACCEPTED
