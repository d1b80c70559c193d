"""What remains of a run of changes is what the changes one by one would leave: any run, against a plain model."""

import numpy as np
from hypothesis import given, settings
from kit.frames import GENERATION, ORDERS
from kit.histories import History, histories
from kit.made_frames import frame_of

from tidegate.columns.batches import FrameDecoder
from tidegate.columns.envelopes import EventSource
from tidegate.lsn import Lsn
from tidegate.pgoutput.messages import Begin, Insert, Update
from tidegate_processor.sinks.pg_table.fold import columns_of, fold, runs

RELATION = ORDERS.relation_id
DECODER = FrameDecoder(EventSource("shop", "shop", GENERATION.system_identifier))


@settings(max_examples=300, deadline=None)
@given(histories())
def test_a_folded_run_ends_where_the_changes_one_by_one_do(history: History) -> None:
    (batch,) = DECODER.decode(frame_of([ORDERS], [Begin(Lsn(9), 5, 7), *history.changes]))
    columns = columns_of(batch, (0,))
    rows = dict(history.before)

    for run in runs(columns, np.arange(len(batch))):
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

    assert rows == history.after


def test_one_entry_a_key_remains() -> None:
    changes = [Insert(RELATION, (b"1", b"x")), *(Update(RELATION, None, None, (b"1", b"%d" % at)) for at in range(500))]
    (batch,) = DECODER.decode(frame_of([ORDERS], [Begin(Lsn(9), 5, 7), *changes]))
    columns = columns_of(batch, (0,))
    (run,) = runs(columns, np.arange(len(batch)))

    net = fold(columns, run)

    assert [each.to_pylist() for each in net.values] == [[b"1"], [b"499"]]
    assert len(net.deletes) == 0
