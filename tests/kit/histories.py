"""What may happen to a table with a primary key: changes as a server would send them, and the rows before and after."""

from dataclasses import dataclass

from hypothesis import strategies as st
from kit.frames import ORDERS

from tidegate.pgoutput.messages import UNCHANGED, Delete, Insert, Message, OldKind, Truncate, Update

RELATION = ORDERS.relation_id
KEYS = [b"%d" % at for at in range(4)]
Rows = dict[bytes, bytes | None]


@dataclass(frozen=True, slots=True)
class History:
    before: Rows
    after: Rows
    changes: list[Message]


@st.composite
def histories(draw: st.DrawFn, *, truncates: bool = False) -> History:
    """Few keys, so that they come, go, move and come back; values that are sent, null, and not sent."""
    before: Rows = dict.fromkeys(draw(st.sets(st.sampled_from(KEYS))), b"before")
    rows, changes = dict(before), []
    for turn in range(draw(st.integers(1, 12))):
        key = draw(st.sampled_from(KEYS))
        kind = draw(st.integers(0, 11))
        if truncates and kind == 0:
            rows.clear()
            changes.append(Truncate((RELATION,), 0))
        elif key not in rows:
            rows[key] = b"made %d" % turn
            changes.append(Insert(RELATION, (key, rows[key])))
        elif kind < 3:
            del rows[key]
            changes.append(Delete(RELATION, OldKind.KEY, (key, None)))
        else:
            value = draw(st.sampled_from((b"value %d" % turn, None, UNCHANGED)))
            to = draw(st.sampled_from([key, *(other for other in KEYS if other not in rows)]))
            kept = rows.pop(key)
            rows[to] = kept if value is UNCHANGED else value
            old = (OldKind.KEY, (key, None)) if to != key else (None, None)
            changes.append(Update(RELATION, *old, (to, value)))
    return History(before, rows, changes)
