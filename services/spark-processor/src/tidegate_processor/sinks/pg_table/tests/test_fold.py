"""What remains of a run of changes is what the changes one by one would leave: any run, against a plain model."""

from hypothesis import given, settings
from hypothesis import strategies as st
from kit.frames import GENERATION, ORDERS
from kit.made_frames import frame_of

from tidegate.columns.batches import FrameDecoder
from tidegate.columns.envelopes import EventSource
from tidegate.lsn import Lsn
from tidegate.pgoutput.messages import UNCHANGED, Begin, Delete, Insert, Message, OldKind, Update
from tidegate_processor.sinks.pg_table.fold import columns_of, fold, runs

RELATION = ORDERS.relation_id
Rows = dict[bytes, bytes | None]
DECODER = FrameDecoder(EventSource("shop", "shop", GENERATION.system_identifier))


@st.composite
def histories(draw: st.DrawFn) -> tuple[Rows, Rows, list[Message]]:
    """A table before, after, and what happened to it: only what a primary key allows."""
    keys = [b"%d" % at for at in range(4)]
    before: Rows = dict.fromkeys(draw(st.sets(st.sampled_from(keys))), b"before")
    rows, changes = dict(before), []
    for turn in range(draw(st.integers(1, 12))):
        key = draw(st.sampled_from(keys))
        value = draw(st.sampled_from((b"value %d" % turn, None, UNCHANGED)))
        if key not in rows:
            rows[key] = b"made %d" % turn
            changes.append(Insert(RELATION, (key, rows[key])))
        elif draw(st.integers(0, 3)) == 0:
            del rows[key]
            changes.append(Delete(RELATION, OldKind.KEY, (key, None)))
        else:
            free = [other for other in keys if other not in rows]
            to = draw(st.sampled_from([key, *free]))
            kept = rows.pop(key)
            rows[to] = kept if value is UNCHANGED else value
            moved = (OldKind.KEY, (key, None)) if to != key else (None, None)
            changes.append(Update(RELATION, *moved, (to, value)))
    return before, rows, changes


@settings(max_examples=300, deadline=None)
@given(histories())
def test_a_folded_run_ends_where_the_changes_one_by_one_do(history) -> None:
    before, after, changes = history
    frame = frame_of([ORDERS], [Begin(Lsn(9), 5, 7), *changes])
    (batch,) = DECODER.decode(frame)
    columns = columns_of(batch, (0,))
    rows = dict(before)

    for run in runs(columns, batch.rows.column(3).to_numpy().astype(int) * 0 + range(len(batch))):
        if columns.moved_with_holes[run[0]]:
            old, new = columns.old[0][run[0]].as_py(), columns.new[0][run[0]].as_py()
            rows[new] = rows.pop(old)
            continue
        net = fold(columns, run)
        for row in net.deletes.tolist():
            rows.pop(columns.old[0][row].as_py(), None)
        for at, (key, value) in enumerate(zip(*(each.to_pylist() for each in net.values), strict=True)):
            assert not net.unsent[at, 0]
            if net.unsent[at, 1]:
                assert key in rows
            else:
                rows[key] = value

    assert rows == after


def test_one_entry_a_key_remains() -> None:
    changes = [Insert(RELATION, (b"1", b"x")), *(Update(RELATION, None, None, (b"1", b"%d" % at)) for at in range(500))]
    (batch,) = DECODER.decode(frame_of([ORDERS], [Begin(Lsn(9), 5, 7), *changes]))
    columns = columns_of(batch, (0,))
    (run,) = runs(columns, columns.ops.nonzero()[0])

    net = fold(columns, run)

    assert [each.to_pylist() for each in net.values] == [[b"1"], [b"499"]]
    assert len(net.deletes) == 0
