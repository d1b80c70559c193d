"""The default envelope, member by member: what consumers are promised in docs/reference/event.md."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import DecodeError, RecordError
from tidegate.events import Operation, event_id
from tidegate.lsn import Lsn
from tidegate.pgoutput.messages import (
    UNCHANGED,
    Binary,
    Column,
    Delete,
    Insert,
    OldKind,
    Relation,
    ReplicaIdentity,
    Row,
    Truncate,
    Update,
)
from tidegate_processor.encodings.envelope import EncodedEvent, EventContext
from tidegate_processor.encodings.json import JsonPlan, RowChange

CONTEXT = EventContext(pipeline="shop", database="shopdb", system_id=7412345678901234567)
COMMIT_TIME = 847_812_345_678_901
ORDERS = Relation(
    16384,
    "public",
    "orders",
    ReplicaIdentity.DEFAULT,
    (Column(1, "id", 23, -1), Column(0, "note", 25, -1), Column(1, "region", 25, -1)),
)


def _plan(relation: Relation = ORDERS) -> JsonPlan:
    return JsonPlan(relation, {}, CONTEXT)


def _encode(change: RowChange, plan: JsonPlan | None = None, *, ordinal: int = 2) -> EncodedEvent:
    return (plan or _plan()).encode(
        change,
        xid=750,
        commit_lsn=Lsn(0x16B3748),
        commit_time=COMMIT_TIME,
        ordinal=ordinal,
        lsn=Lsn(0x100000010),
    )


def _payload(change: RowChange, plan: JsonPlan | None = None) -> dict[str, Any]:
    payload: dict[str, Any] = json.loads(_encode(change, plan).value)["payload"]
    return payload


def _with_identity(identity: ReplicaIdentity, flags: tuple[int, ...]) -> JsonPlan:
    columns = tuple(
        Column(flag, column.name, column.type_oid, -1) for flag, column in zip(flags, ORDERS.columns, strict=True)
    )
    return _plan(Relation(16384, "public", "orders", identity, columns))


FULL = _with_identity(ReplicaIdentity.FULL, (1, 1, 1))
NOTHING = _with_identity(ReplicaIdentity.NOTHING, (0, 0, 0))


def test_the_whole_event_byte_by_byte() -> None:
    event = _encode(Insert(16384, (b"7", None, b"eu")))

    identity = event_id(
        system_id=CONTEXT.system_id, commit_lsn=Lsn(0x16B3748), xid=750, commit_time=COMMIT_TIME, ordinal=2
    )
    assert event.id == identity
    assert event.key == b'{"id":7,"region":"eu"}'
    assert event.table == ("public", "orders")
    assert event.operation is Operation.INSERT
    assert event.value == (
        b'{"id":"' + identity.encode() + b'","channel":"public.orders","operation":"INSERT",'
        b'"payload":{"op":"c","table":"orders","row":{"id":7,"note":null,"region":"eu"},"old":null,"unchanged":[]},'
        b'"source":{"pipeline":"shop","database":"shopdb","system_id":"7412345678901234567","snapshot":false},'
        b'"position":{"commit_lsn":"0/16B3748","ordinal":2,"lsn":"1/10"},'
        b'"created_at":"2026-11-12T15:25:45.678901Z",'
        b'"transaction":{"xid":750,"commit_time":"2026-11-12T15:25:45.678901Z","seq":3}}'
    )


def test_an_update_without_an_old_row() -> None:
    payload = _payload(Update(16384, None, None, (b"7", b"n", b"eu")))

    assert payload == {
        "op": "u",
        "table": "orders",
        "row": {"id": 7, "note": "n", "region": "eu"},
        "old": None,
        "unchanged": [],
    }


def test_an_update_of_the_key_has_the_new_key_and_tells_the_old_one() -> None:
    event = _encode(Update(16384, OldKind.KEY, (b"7", None, b"eu"), (b"8", b"n", b"eu")))

    assert event.key == b'{"id":8,"region":"eu"}'
    assert json.loads(event.value)["payload"]["old"] == {"id": 7, "region": "eu"}


def test_an_unchanged_value_is_listed_and_not_in_the_row() -> None:
    payload = _payload(Update(16384, None, None, (b"7", UNCHANGED, b"eu")))

    assert payload["row"] == {"id": 7, "region": "eu"}
    assert payload["unchanged"] == ["note"]


def test_an_unchanged_value_comes_from_a_full_old_row() -> None:
    payload = _payload(Update(16384, OldKind.FULL, (b"7", b"long", b"eu"), (b"7", UNCHANGED, b"us")), FULL)

    assert payload["row"] == {"id": 7, "note": "long", "region": "us"}
    assert payload["old"] == {"id": 7, "note": "long", "region": "eu"}
    assert payload["unchanged"] == []


def test_a_null_in_a_key_only_old_row_is_not_the_old_value() -> None:
    """Outside its key columns such a row is NULL whatever stood there."""
    payload = _payload(Update(16384, OldKind.KEY, (b"6", None, b"eu"), (b"7", UNCHANGED, b"eu")))

    assert payload["row"] == {"id": 7, "region": "eu"}
    assert payload["unchanged"] == ["note"]


def test_an_unchanged_key_column_comes_from_the_old_key() -> None:
    event = _encode(Update(16384, OldKind.KEY, (b"6", None, b"long"), (b"7", b"n", UNCHANGED)))

    assert event.key == b'{"id":7,"region":"long"}'


def test_a_key_column_that_was_never_sent_is_refused() -> None:
    with pytest.raises(RecordError) as refused:
        _encode(Update(16384, None, None, (b"7", b"n", UNCHANGED)))
    assert refused.value.code == "KEY_NOT_SENT"


@pytest.mark.parametrize(
    ("change", "plan", "key", "old"),
    [
        (
            Delete(16384, OldKind.KEY, (b"7", None, b"eu")),
            _plan(),
            b'{"id":7,"region":"eu"}',
            {"id": 7, "region": "eu"},
        ),
        (
            Delete(16384, OldKind.FULL, (b"7", None, b"eu")),
            FULL,
            b'{"id":7,"note":null,"region":"eu"}',
            {"id": 7, "note": None, "region": "eu"},
        ),
    ],
    ids=["key", "full"],
)
def test_a_delete_has_no_row_and_its_key_is_the_old_one(
    change: Delete, plan: JsonPlan, key: bytes, old: dict[str, object]
) -> None:
    event = _encode(change, plan)

    assert key == event.key
    payload = json.loads(event.value)["payload"]
    assert payload == {"op": "d", "table": "orders", "row": None, "old": old, "unchanged": []}


def test_without_a_replica_identity_there_is_no_key() -> None:
    assert _encode(Insert(16384, (b"7", None, b"eu")), NOTHING).key is None


def test_a_truncate_is_an_event_a_table_with_ids_of_their_own() -> None:
    other = _plan(Relation(16385, "public", "lines", ReplicaIdentity.DEFAULT, ()))
    change = Truncate((16384, 16385), 3)

    events = [_encode(change), _encode(change, other)]

    payload = json.loads(events[1].value)["payload"]
    options = {"cascade": True, "restart_identity": True}
    expected = {"op": "t", "table": "lines", "row": None, "old": None, "unchanged": [], "options": options}
    assert expected == payload
    assert events[0].key is None
    assert events[0].id != events[1].id


def test_the_event_in_the_reference_is_true() -> None:
    """Its members, their order, and its key."""
    page = (Path(__file__).parents[4] / "docs/reference/event.md").read_text(encoding="utf-8")
    value, key = re.findall(r"```json\n(.+?)\n```", page, re.DOTALL)

    event = _encode(Update(16384, OldKind.KEY, (b"7", None, b"eu"), (b"8", UNCHANGED, b"eu")))

    assert json.dumps(json.loads(value)) == json.dumps(json.loads(event.value))
    assert key.encode() == event.key


def test_the_same_change_gives_the_same_bytes_from_another_plan() -> None:
    change = Update(16384, OldKind.KEY, (b"7", None, b"eu"), (b"8", UNCHANGED, b"eu"))

    assert _encode(change) == _encode(change)


def test_a_plan_goes_from_transaction_to_transaction() -> None:
    plan = _plan()
    change = Insert(16384, (b"7", None, b"eu"))
    first = _encode(change, plan)
    other = plan.encode(change, xid=751, commit_lsn=Lsn(1), commit_time=0, ordinal=0, lsn=Lsn(0))

    assert json.loads(other.value)["transaction"] == {
        "xid": 751,
        "commit_time": "2000-01-01T00:00:00.000000Z",
        "seq": 1,
    }
    assert first == _encode(change, plan)


@pytest.mark.parametrize(
    ("value", "code"), [(b"\xffsecret", "VALUE_NOT_UTF8"), (Binary(b"secret"), "VALUE_BINARY")], ids=["bytes", "binary"]
)
def test_a_value_that_cannot_be_told_is_a_record_error_without_the_value(value: bytes | Binary, code: str) -> None:
    for change in (
        Insert(16384, (b"7", value, b"eu")),
        Update(16384, None, None, (b"7", value, b"eu")),
        Delete(16384, OldKind.FULL, (b"7", value, b"eu")),
    ):
        with pytest.raises(RecordError) as refused:
            _encode(change, FULL)
        assert code == refused.value.code
        assert "secret" not in repr(refused.value.args)
        assert refused.value.__cause__ is None
        assert refused.value.__suppress_context__ or refused.value.__context__ is None


@pytest.mark.parametrize(
    "change",
    [
        Insert(16384, (b"7",)),
        Insert(16384, (b"7", None, b"eu", None)),
        Update(16384, OldKind.KEY, (b"7", None, b"eu"), (UNCHANGED,)),
        Update(16384, OldKind.KEY, (b"7",), (b"7", UNCHANGED, b"eu")),
        Delete(16384, OldKind.FULL, ()),
    ],
)
def test_a_row_that_is_not_of_this_relation_stops_the_stream(change: RowChange) -> None:
    with pytest.raises(DecodeError) as refused:
        _encode(change)
    assert refused.value.code == "DECODE_ROW_WIDTH"


def test_a_new_row_with_holes_stops_the_stream() -> None:
    with pytest.raises(DecodeError):
        _encode(Insert(16384, (b"7", UNCHANGED, b"eu")))


def test_an_empty_namespace_is_pg_catalog() -> None:
    relation = Relation(16386, "", "t", ReplicaIdentity.DEFAULT, ())
    event = _encode(Insert(16386, ()), _plan(relation))

    assert event.table == ("pg_catalog", "t")
    assert json.loads(event.value)["channel"] == "pg_catalog.t"


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)
texts = st.none() | names.map(str.encode) | st.just(UNCHANGED)


@given(st.lists(st.tuples(names, texts), unique_by=lambda named: named[0], max_size=8), names, names)
def test_names_may_hold_anything(columns: list[tuple[str, Any]], schema: str, table: str) -> None:
    """Quotes, emoji, percent signs, newlines: the event is JSON and says each column once."""
    relation = Relation(
        1, schema, table, ReplicaIdentity.DEFAULT, tuple(Column(0, name, 25, -1) for name, _ in columns)
    )
    new: Row = tuple(value for _, value in columns)

    event = json.loads(_encode(Update(1, None, None, new), _plan(relation)).value)

    sent = {name: value and value.decode() for name, value in columns if value is not UNCHANGED}
    assert f"{schema}.{table}" == event["channel"]
    assert table == event["payload"]["table"]
    assert sent == event["payload"]["row"]
    assert [name for name, value in columns if value is UNCHANGED] == event["payload"]["unchanged"]
