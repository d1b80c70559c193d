"""How far a slot may forget WAL without a loss, by the last look at its pipelines.

Invariant: the lowest of all who read the slot counts, and one of whom nothing is known makes the answer unknown.
"""

from collections.abc import Iterable, Mapping

from tidegate.config.pipeline import PipelineConfig
from tidegate.lsn import Lsn
from tidegate_admin.pipelines.service import PipelineView


def lowest_acked(views: Mapping[str, PipelineView], pipelines: Iterable[PipelineConfig], slot: str) -> Lsn | None:
    """`pipelines`: those of the slot's database. The look is seconds old: acks only grow."""
    found = [_acked(views.get(each.pipeline)) for each in pipelines if each.source.slot.name == slot]
    known = [each for each in found if each is not None]
    return min(known) if known and len(known) == len(found) else None


def _acked(view: PipelineView | None) -> Lsn | None:
    acks = [lane.ack for lane in view.lanes if lane.required] if view else []
    known = [ack.safe_lsn for ack in acks if ack]
    return min(known) if known and len(known) == len(acks) else None
