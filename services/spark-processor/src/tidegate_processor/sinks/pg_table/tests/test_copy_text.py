"""COPY's text as a server would read it back."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidegate.pgoutput.copy_text import copy_rows
from tidegate_processor.sinks.pg_table.copy_text import TYPE, copy_text

CELLS = (
    st.none() | st.binary(max_size=12).filter(lambda value: b"\0" not in value) | st.sampled_from([b"\\N", b"\t\n\r\\"])
)


@given(st.integers(1, 4).flatmap(lambda width: st.lists(st.tuples(*[CELLS] * width), min_size=1, max_size=6)))
def test_what_is_read_back_is_what_was_written(rows) -> None:
    columns = [pa.array(column, TYPE) for column in zip(*rows, strict=True)]

    text = copy_text(columns)

    assert list(copy_rows(text, len(columns))) == rows


def test_a_slice_of_a_column_is_written_alone() -> None:
    column = pa.array([b"a\tb", b"one", None, b"last\\"], TYPE)

    assert copy_text([column.slice(1, 2)]) == b"one\n\\N\n"
