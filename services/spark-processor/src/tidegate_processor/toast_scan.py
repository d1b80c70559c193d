"""Which changes of a frame may concern what is remembered of rows: found by the kernel that finds changes.

Invariant: a change is left out only if no row of its relation is remembered, and none in the frame is large enough to
be or lacks a value: then nothing can follow from it.
"""

from collections.abc import Collection
from typing import Final

import numpy as np

from tidegate.columns import layout
from tidegate.columns.envelopes import EventSource, default_envelope
from tidegate.columns.frames import scan_frame
from tidegate.columns.plans import Plans
from tidegate.contracts.frame import Frame
from tidegate.position import Position

_NO_SOURCE: Final = EventSource("", "", 0)


class ChangeScan:
    def __init__(self, shortest_row: int) -> None:
        self._shortest_row = shortest_row
        self._plans = Plans(_NO_SOURCE, lambda *_: "", default_envelope)

    def of(
        self, frame: Frame, after: Position, relations: Collection[int], remembered: Collection[int]
    ) -> list[tuple[int, int]]:
        """Offset and length of their messages, in order, of what lies above `after`. A truncate stands once."""
        section = self._plans.section(frame)
        rows = scan_frame(frame, after, section, section.topics).rows
        of_row = section.ids[rows[:, layout.RELATION]] if len(rows) else rows[:, layout.RELATION]
        is_large = (rows[:, layout.LENGTH] >= self._shortest_row) & (rows[:, layout.OPERATION] != layout.DELETE)
        lacks_some = rows[:, layout.FLAGS] & layout.HAS_UNCHANGED != 0
        concerned = {*remembered, *np.unique(of_row[is_large | lacks_some]).tolist()} & {*relations}
        matter = rows[np.isin(of_row, list(concerned))]
        places = matter[:, [layout.MESSAGE, layout.LENGTH]].tolist()
        return list(dict.fromkeys((at, length) for at, length in places))
