"""Whether rows of a snapshot are with the sinks, or at least still where these find them. Pure.

| a required sink | its rows are |
| --- | --- |
| has acked the snapshot's last frame, in its topic | delivered |
| reads on at or behind where that topic begins now | found |
| says that it has missed offsets that lie among the snapshot's | lost: read again |
| else: the topic was made anew, or retention took what the sink has not read | lost: read again |

Positions tell nothing here: rows of a snapshot move none, and the source does not send them again. Nobody waits for
those of a cancelled one. Of a paused or failed one it counts for the day it is resumed.
"""

from collections.abc import Mapping, Sequence

from tidegate.contracts.ack import Ack
from tidegate.contracts.snapshot_status import SnapshotState
from tidegate_reader.snapshot.records import SnapshotRecord


def is_delivered(record: SnapshotRecord, acks: Mapping[str, Ack], required: Sequence[str]) -> bool:
    return all(sink in acks and _has_all(record, acks[sink]) for sink in required)


def is_lost(
    record: SnapshotRecord, acks: Mapping[str, Ack], required: Sequence[str], topic_id: str, beginning: int
) -> bool:
    """`beginning`: first raw offset that is left of the topic with that id."""
    if record.state is SnapshotState.CANCELLED or record.is_delivered or not record.topic_id:
        return False
    if record.topic_id == topic_id and beginning <= record.first_offset:
        return False
    return any(not _finds(record, acks.get(sink), topic_id, beginning) for sink in required)


def _finds(record: SnapshotRecord, ack: Ack | None, topic_id: str, beginning: int) -> bool:
    if ack is None:
        return False
    is_there = ack.topic_id == topic_id == record.topic_id and beginning <= ack.offset + 1
    return _has_all(record, ack) or (is_there and not _has_missed(record, ack))


def _has_all(record: SnapshotRecord, ack: Ack) -> bool:
    has_passed = ack.topic_id == record.topic_id and ack.offset >= record.end_offset > 0
    return has_passed and not _has_missed(record, ack)


def _has_missed(record: SnapshotRecord, ack: Ack) -> bool:
    """Of a snapshot that is being read, all that comes is still before the sink."""
    begin, end = ack.missed
    return end > record.first_offset + 1 and (record.end_offset == 0 or begin <= record.end_offset)
