"""Which transactions of a frame are sampled: one look at all their commit LSNs, found by the kernel that finds changes.

Invariant: it is the decision of `Sampler` for each of them, so a lane and the reader sample the same ones; what is
made in Python is made of those alone.
"""

from typing import Final

import numpy as np

from tidegate.columns import layout
from tidegate.columns.envelopes import EventSource, default_envelope
from tidegate.columns.frames import scan_frame
from tidegate.columns.plans import Plans
from tidegate.contracts.frame import Frame
from tidegate.contracts.generation import Generation
from tidegate.lsn import Lsn
from tidegate.observability.trace_context import Sampler, TraceContext, trace_of
from tidegate.position import Position

_NO_SOURCE: Final = EventSource("", "", 0)


class SampledScan:
    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._plans = Plans(_NO_SOURCE, lambda *_: None, default_envelope)

    def of(self, frame: Frame, after: Position) -> list[tuple[Lsn, int, TraceContext]]:
        """Commit LSN, xid and trace of those that are not wholly at or below `after`, in order."""
        section = self._plans.section(frame)
        transactions = scan_frame(frame, after, section, section.topics).transactions
        lsns = transactions[:, layout.COMMIT_LSN].view(np.uint64)
        places = np.flatnonzero(self._sampler.takes(lsns) & (lsns >= after.commit_lsn))
        return [_identified(transactions[place], frame.header.generation) for place in places.tolist()]


def sampled_traces(transactions: np.ndarray, generation: Generation, sampler: Sampler) -> dict[int, TraceContext]:
    """By their place in a table of transactions (`layout`)."""
    lsns = transactions[:, layout.COMMIT_LSN].view(np.uint64)
    places = np.flatnonzero(sampler.takes(lsns))
    return {place: _identified(transactions[place], generation)[2] for place in places.tolist()}


def _identified(transaction: np.ndarray, generation: Generation) -> tuple[Lsn, int, TraceContext]:
    xid, commit_lsn, commit_time = transaction.tolist()
    lsn = Lsn(commit_lsn % 2**64)
    system_id = generation.system_identifier
    return lsn, xid, trace_of(system_id=system_id, commit_lsn=lsn, xid=xid, commit_time=commit_time)
