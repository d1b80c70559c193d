"""Keys that rows had before an update gave them others: in a compacted topic their last events would stay for ever.

Invariant: an old key is byte for byte the one that a delete of that row would have. So it is made by the same kernels,
from a delete in the update's place.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from tidegate.columns import layout
from tidegate.columns.json_encode import TopicEvents
from tidegate.contracts.frame import BODY_ENTRY, Frame
from tidegate.lsn import Lsn
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.encode import encode_message
from tidegate.pgoutput.messages import Begin, Delete, Update
from tidegate.position import BEGINNING
from tidegate_processor.sinks.shared.events import EventEncoder

_ANY_TRANSACTION: Final = encode_message(Begin(Lsn(1), 0, 1))


class OldKeys:
    def __init__(self, encoder: EventEncoder) -> None:
        """`encoder` of its own: it is asked between two frames of the sink's."""
        self._encoder = encoder

    def of(self, frame: Frame, events: TopicEvents) -> Mapping[int, bytes]:
        """By the place of an event among these: a key that its row has no more."""
        changes = events.changes
        if changes.operation is not None:  # a snapshot's rows, or what is no change of a row
            return {}
        rows = changes.rows[events.places[:, layout.CHANGE]]
        has_old = (rows[:, layout.OPERATION] == layout.UPDATE) & (rows[:, layout.OLD_KIND] != 0) & ~events.keyless
        places = np.flatnonzero(has_old).tolist()
        if not places:
            return {}
        spans = rows[places][:, [layout.MESSAGE, layout.LENGTH]].tolist()
        before = self._keys(frame, [_as_delete(changes.body[at : at + length].tobytes()) for at, length in spans])
        now = [key for key, _ in events]
        return {place: old for place, old in zip(places, before, strict=True) if old is not None and old != now[place]}

    def _keys(self, frame: Frame, deletes: list[bytes]) -> list[bytes | None]:
        messages = [_ANY_TRANSACTION, *deletes]
        body = b"".join(BODY_ENTRY.pack(len(message), 0) + message for message in messages)
        header = replace(frame.header, messages=len(messages), changes=len(deletes), open_transaction=None)
        encoded = self._encoder.encode(replace(frame, header=header, body=body), BEGINNING)
        keys: list[bytes | None] = [None] * len(deletes)
        for events in encoded.topics:
            ordinals = events.changes.rows[events.places[:, layout.CHANGE], layout.ORDINAL].tolist()
            for ordinal, (key, _) in zip(ordinals, events, strict=True):
                keys[ordinal] = key
        return keys


def _as_delete(raw: bytes) -> bytes:
    update = decode_message(raw)
    assert isinstance(update, Update)
    assert update.old_kind is not None
    assert update.old is not None
    return encode_message(Delete(update.relation_id, update.old_kind, update.old))
