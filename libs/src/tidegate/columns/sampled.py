"""Which transactions of a frame are sampled: one look at all their commit LSNs.

Invariant: it is the decision of `Sampler` for each of them, so a lane and the reader sample the same ones; what is
made in Python is made of those alone.
"""

import numpy as np

from tidegate.columns import layout
from tidegate.columns.begins import find_begins
from tidegate.contracts.frame import Frame
from tidegate.contracts.generation import Generation
from tidegate.lsn import Lsn
from tidegate.observability.trace_context import Sampler, TraceContext, trace_of
from tidegate.position import Position


class SampledScan:
    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def of(self, frame: Frame, after: Position) -> list[tuple[Lsn, int, TraceContext]]:
        """Commit LSN, xid and trace of those that are not wholly at or below `after`, in order."""
        transactions = _transactions(frame)
        lsns = transactions[:, layout.COMMIT_LSN].view(np.uint64)
        places = np.flatnonzero(self._sampler.takes(lsns) & (lsns >= after.commit_lsn))
        return [_identified(transactions[place], frame.header.generation) for place in places.tolist()]


def sampled_traces(transactions: np.ndarray, generation: Generation, sampler: Sampler) -> dict[int, TraceContext]:
    """By their place in a table of transactions (`layout`)."""
    lsns = transactions[:, layout.COMMIT_LSN].view(np.uint64)
    places = np.flatnonzero(sampler.takes(lsns))
    return {place: _identified(transactions[place], generation)[2] for place in places.tolist()}


def _transactions(frame: Frame) -> np.ndarray:
    """All of them, as in `layout`."""
    found = np.empty((len(frame.body) // layout.SMALLEST_BEGIN + 1, layout.TRANSACTION_FIELDS), np.int64)
    opened = frame.header.open_transaction
    if opened is not None:
        lsns = np.array([opened.commit_lsn], np.uint64).view(np.int64)
        found[0, layout.XID], found[0, layout.COMMIT_LSN] = opened.xid, lsns[0]
        found[0, layout.COMMIT_TIME] = opened.commit_time
    return found[: find_begins(np.frombuffer(frame.body, np.uint8), found, int(opened is not None))]


def _identified(transaction: np.ndarray, generation: Generation) -> tuple[Lsn, int, TraceContext]:
    xid, commit_lsn, commit_time = transaction.tolist()
    lsn = Lsn(commit_lsn % 2**64)
    system_id = generation.system_identifier
    return lsn, xid, trace_of(system_id=system_id, commit_lsn=lsn, xid=xid, commit_time=commit_time)
