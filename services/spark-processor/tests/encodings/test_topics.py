"""Names of topics: Kafka takes them all, and two tables never share one."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import ConfigError, RecordError
from tidegate_processor.encodings.topics import DEFAULT_TEMPLATE, LONGEST, escape, topic_name

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=15)
tricky = st.text(alphabet="_xX2EAé.-", min_size=1, max_size=12)

_ESCAPED = re.compile(r"_x([0-9A-F]{2})_")


def _unescape(name: str) -> str:
    raw = b""
    while name:
        if match := _ESCAPED.match(name):
            raw, name = raw + bytes.fromhex(match[1]), name[match.end() :]
        else:
            raw, name = raw + name[0].encode(), name[1:]
    return raw.decode()


@given(names | tricky)
def test_an_escaped_name_can_be_read_back(name: str) -> None:
    """So two different names never have the same escape."""
    assert name == _unescape(escape(name))


@given(st.tuples(tricky, tricky, tricky) | st.tuples(names, names, names))
def test_a_topic_tells_its_pipeline_schema_and_table(told: tuple[str, str, str]) -> None:
    try:
        topic = topic_name(DEFAULT_TEMPLATE, *told)
    except RecordError:
        assert len(".".join(map(escape, told))) > LONGEST
    else:
        assert re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", topic)
        assert told == tuple(map(_unescape, topic.split(".")))


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("orders", "orders"),
        ("order_lines-2", "order_lines-2"),
        ("order_xref", "order_xref"),
        ("Заказ", "_xD0__x97__xD0__xB0__xD0__xBA__xD0__xB0__xD0__xB7_"),
        ("a.b", "a_x2E_b"),
        ("a_x2E_b", "a_x5F_x2E_b"),
        (".", "_x2E_"),
        ("..", "_x2E__x2E_"),
    ],
)
def test_escapes(table: str, expected: str) -> None:
    assert expected == topic_name("{table}", "shop", "public", table)


def test_a_name_inside_braces_is_not_filled_in_again() -> None:
    assert topic_name("{schema}.{table}", "shop", "{table}", "t") == "_x7B_table_x7D_.t"


def test_a_name_too_long_is_this_record_never() -> None:
    with pytest.raises(RecordError) as refused:
        topic_name(DEFAULT_TEMPLATE, "shop", "public", "é" * 30)

    assert refused.value.code == "TOPIC_NAME_TOO_LONG"


@pytest.mark.parametrize("template", ["", ".", "..", "{table} ", "{nobody}", "a/b", "{table", "ä{table}"])
def test_a_template_that_kafka_would_refuse_is_refused_here(template: str) -> None:
    with pytest.raises(ConfigError):
        topic_name(template, "shop", "public", "t")
