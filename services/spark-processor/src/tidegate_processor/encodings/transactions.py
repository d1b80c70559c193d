"""Begin and end of transactions as events: how many changes belong to one, and up to where all of them are delivered.

Invariant: an event says the same whenever it is sent, and stands in the Kafka transaction of the changes beside it. A
transaction without a row or a truncate, as a heartbeat is, has neither event.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from tidegate.contracts.frame import Frame, body_messages
from tidegate.events import EventIds, format_time
from tidegate.lsn import format_lsn
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.messages import Begin, Commit
from tidegate.position import Position
from tidegate_processor.encodings.envelope import EventContext

_CHANGES = (b"I", b"U", b"D", b"T", b"M")
# Above every place in a TRUNCATE's list, below what changes of shape take.
_BEGIN_SUB, _COMMIT_SUB = 2**20, 2**20 + 1


@dataclass(slots=True)
class _Open:
    begin: Begin
    ordinal: int
    begins_here: bool
    has_rows: bool = False


class TransactionEvents:
    def __init__(self, context: EventContext) -> None:
        source = {"pipeline": context.pipeline, "database": context.database, "system_id": str(context.system_id)}
        self._source, self._system_id = source, context.system_id

    def of(self, frame: Frame, after: Position) -> Iterator[tuple[bytes, bytes]]:
        """Key and value of each, of a whole `wal` frame, in order, of what lies above `after`."""
        header = frame.header.open_transaction
        opened: _Open | None = None
        if header is not None:
            begin = Begin(header.commit_lsn, header.commit_time, header.xid)
            opened = _Open(begin, header.next_ordinal, begins_here=False)
        for _, raw in body_messages(frame):
            tag = raw[:1]
            if tag == b"B":
                begun = decode_message(raw)
                opened = _Open(begun, 0, begins_here=True) if isinstance(begun, Begin) else None
            elif opened is not None and tag in _CHANGES:
                opened.ordinal += 1
                opened.has_rows = opened.has_rows or tag != b"M"
            elif opened is not None and tag == b"C":
                commit = decode_message(raw)
                assert isinstance(commit, Commit)
                yield from self._ended(opened, commit, after)
                opened = None
        if opened is not None:
            yield from self._begun(opened, after)

    def _begun(self, opened: _Open, after: Position) -> Iterator[tuple[bytes, bytes]]:
        if opened.begins_here and Position(opened.begin.commit_lsn, 0) > after:
            yield self._event("BEGIN", opened.begin, 0, _BEGIN_SUB, {})

    def _ended(self, opened: _Open, commit: Commit, after: Position) -> Iterator[tuple[bytes, bytes]]:
        if opened.begins_here and not opened.has_rows:
            return
        yield from self._begun(opened, after)
        if Position(opened.begin.commit_lsn, opened.ordinal) > after:
            said = {"changes": opened.ordinal, "consistent_lsn": format_lsn(commit.end_lsn)}
            yield self._event("COMMIT", opened.begin, opened.ordinal, _COMMIT_SUB, said)

    def _event(
        self, operation: str, begin: Begin, ordinal: int, sub: int, said: dict[str, object]
    ) -> tuple[bytes, bytes]:
        ids = EventIds(
            system_id=self._system_id, commit_lsn=begin.commit_lsn, xid=begin.xid, commit_time=begin.commit_time
        )
        time = format_time(begin.commit_time)
        event = {
            "id": ids.id(ordinal, sub),
            "operation": operation,
            **said,
            "source": self._source,
            "position": {"commit_lsn": format_lsn(begin.commit_lsn), "ordinal": ordinal},
            "created_at": time,
            "transaction": {"xid": begin.xid, "commit_time": time},
        }
        return format_lsn(begin.commit_lsn).encode(), orjson.dumps(event)
