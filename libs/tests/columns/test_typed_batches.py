"""Change batches to typed ones: each column is its text's cast, and the three kinds of null stay apart."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.made_frames import SYSTEM_ID, frame_of, frames

from tidegate.columns.batches import HEAD, FrameDecoder
from tidegate.columns.cast_nested import cast_text
from tidegate.columns.casts import Arrays, cast_of
from tidegate.columns.envelopes import EventSource
from tidegate.columns.typed import Caster, TypedBatch
from tidegate.contracts.frame import Frame
from tidegate.errors import DecodeError
from tidegate.lsn import Lsn
from tidegate.pgoutput.messages import (
    UNCHANGED,
    Begin,
    Binary,
    Column,
    Insert,
    OldKind,
    Relation,
    ReplicaIdentity,
    Update,
)

DECODER = FrameDecoder(EventSource("p", "d", SYSTEM_ID))
CASTERS = {arrays: Caster(arrays) for arrays in Arrays}


@settings(max_examples=200, deadline=None)
@given(frames(), st.sampled_from(Arrays))
def test_a_typed_batch_is_the_text_batch_cast_column_by_column(frame: Frame, arrays: Arrays) -> None:
    try:
        batches = DECODER.decode(frame)
    except DecodeError:
        return
    for batch in batches:
        typed = CASTERS[arrays].cast(batch)
        typed.rows.validate(full=True)
        assert CASTERS[arrays].schema(batch.shape).equals(typed.rows.schema)
        assert batch.rows.columns[: len(HEAD)] == typed.rows.columns[: len(HEAD)]
        for at, column in enumerate(2 * batch.shape.relation.columns, start=len(HEAD)):
            cast = cast_of(column.type_oid, column.typmod, batch.shape.types, arrays)
            expected = cast_text(batch.rows.column(at), cast)
            # By text: NaN is not equal to itself.
            assert str(expected.values) == str(typed.rows.column(at))
            beyond = typed.beyond[at].to_pylist() if at in typed.beyond else None
            assert (None if expected.beyond is None else expected.beyond.tolist()) == beyond
            assert expected.values.null_count == typed.rows.column(at).null_count


COLUMNS = (
    Column(1, "id", 23, -1),
    Column(0, "at", 1114, -1),
    Column(0, "weight", 701, -1),
    Column(0, "tags", 1007, -1),
)
RELATION = Relation(5, "public", "t", ReplicaIdentity.DEFAULT, COLUMNS)


def _cast(*changes: Insert | Update) -> TypedBatch:
    (batch,) = DECODER.decode(frame_of([RELATION], [Begin(Lsn(9), 5, 7), *changes]))
    return CASTERS[Arrays.LISTS].cast(batch)


def test_null_not_sent_and_beyond_are_told_apart() -> None:
    typed = _cast(
        Insert(5, (b"1", None, b"1", None)),
        Insert(5, (b"2", b"infinity", b"5e-324", b"{{1}}")),
        Update(5, OldKind.KEY, (b"2", None, None, None), (b"3", UNCHANGED, b"-0", b"{1}")),
    )
    at, tags = typed.rows.schema.get_field_index("new.at"), typed.rows.schema.get_field_index("new.tags")

    assert typed.rows.column(at).null_count == 3
    assert typed.beyond[at].to_pylist() == [False, True, False]
    assert typed.unsent[at].to_pylist() == [False, False, True]
    assert (typed.rows.column(tags).to_pylist(), typed.beyond[tags].to_pylist()) == (
        [None, None, [1]],
        [False, True, False],
    )
    assert typed.rows.column("new.weight").to_pylist() == [1.0, 5e-324, -0.0]
    assert typed.rows.column("old.id").to_pylist() == [None, None, 2]


def test_what_the_kernel_can_not_decide_is_no_null() -> None:
    weight = _cast(Insert(5, (b"1", None, b"5e-324", None))).rows.column("new.weight")

    assert (weight.null_count, weight.to_pylist()) == (0, [5e-324])


def test_a_batch_whose_changes_were_all_refused_is_empty() -> None:
    typed = _cast(Insert(5, (Binary(b"1"), None, None, None)))

    assert (typed.rows.num_rows, len(typed.rejected)) == (0, 1)


def test_no_offset_has_32_bits() -> None:
    """Neither in a column nor inside one: a gigabyte of short elements must not wrap around."""
    small = (pa.types.is_list, pa.types.is_map, pa.types.is_string, pa.types.is_binary)
    oids = [*range(16, 30), *range(600, 629), 718, *range(1000, 1263), *range(3904, 3928), *range(4451, 4537), 6150]

    def nested(kind: pa.DataType) -> list[pa.DataType]:
        return [kind, *(inner for at in range(kind.num_fields) for inner in nested(kind.field(at).type))]

    kinds = [each for oid in oids for arrays in Arrays for each in nested(cast_of(oid, -1, {}, arrays).type)]
    assert not [kind for kind in kinds if any(is_small(kind) for is_small in small)]
