"""Where transactions begin in the body of a frame: a look at the head of each message, and none at a row.

Invariant: no byte is read that was not proven to be there. A body that breaks its rules gives what stands before that:
who decodes it says what is wrong.
"""

import numpy as np

from tidegate.columns import layout
from tidegate.columns.compiled import kernel, signed
from tidegate.columns.memory import address, be_i64, be_u32, byte

_HEAD = layout.ENTRY_HEAD
_BEGIN_BYTES = layout.SMALLEST_BEGIN - layout.ENTRY_HEAD
_B = ord("B")


@kernel
def find_begins(body: np.ndarray, transactions: np.ndarray, begun: int) -> int:
    """Adds them behind the first `begun` of `transactions`, which has room for all; how many there are then."""
    at = address(body)
    end = at + len(body)
    while at + _HEAD < end:
        message = at + _HEAD
        length = signed(be_u32(at))
        at = message + length
        if at <= end and length == _BEGIN_BYTES and byte(message) == _B:
            transactions[begun, layout.COMMIT_LSN] = be_i64(message + 1)
            transactions[begun, layout.COMMIT_TIME] = be_i64(message + 9)
            transactions[begun, layout.XID] = signed(be_u32(message + 17))
            begun += 1
    return begun
