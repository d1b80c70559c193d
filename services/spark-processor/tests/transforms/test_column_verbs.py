"""What becomes of a relation's columns: each verb alone, and one behind the other."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tidegate.config.transforms import Transform
from tidegate.errors import ConfigError
from tidegate.pgoutput.messages import Column, Relation, ReplicaIdentity, Type
from tidegate.pgoutput.rewrite import Canon, Writer, Written, hashed
from tidegate_processor.transforms.registry import ColumnPlan, column_verbs

SALT = "0123456789abcdef0123456789abcdef"
INT4, TEXT, NUMERIC, BPCHAR, MOOD, ARRAY, UUID = 23, 25, 1700, 1042, 70_002, 1007, 2950


def people(identity: ReplicaIdentity = ReplicaIdentity.DEFAULT) -> Relation:
    flag = int(identity is ReplicaIdentity.FULL)
    columns = (
        Column(1, "id", INT4, -1),
        Column(flag, "email", TEXT, -1),
        Column(flag, "amount", NUMERIC, -1),
        Column(flag, "code", BPCHAR, -1),
        Column(flag, "mood", MOOD, -1),
        Column(flag, "scores", ARRAY, -1),
    )
    return Relation(5, "public", "people", identity, columns)


def plan(*transforms: Transform, relation: Relation | None = None, is_strict: bool = True) -> Sequence[Written]:
    types = {MOOD: Type(MOOD, "public", "mood")}
    return ColumnPlan(column_verbs(transforms), lambda *_: True)(relation or people(), types, is_strict)


def verb(name: str, **options: Any) -> Transform:
    return Transform(type=name, options=options)


@pytest.fixture
def salt(tmp_path: Path) -> str:
    (tmp_path / "salt").write_text(SALT)
    return f"${{file:{tmp_path}/salt}}"


def names(columns: Sequence[Written]) -> list[str]:
    return [each.column.name for each in columns if not each.is_dropped]


def test_columns_are_dropped_by_name_and_by_pattern() -> None:
    assert names(plan(verb("drop_columns", columns=["email", "sc*"]))) == ["id", "amount", "code", "mood"]


def test_other_tables_are_left_alone() -> None:
    columns = plan(verb("drop_columns", tables=["public.orders"], columns=["email"]))

    assert [column.name for column in people().columns] == names(columns)


def test_names_are_exchanged() -> None:
    columns = plan(verb("rename_fields", fields={"email": "code", "code": "email"}))

    assert names(columns) == ["id", "code", "amount", "email", "mood", "scores"]


def test_later_verbs_go_by_the_new_names() -> None:
    columns = plan(verb("rename_fields", fields={"email": "mail"}), verb("drop_columns", columns=["mail", "email"]))

    assert "mail" not in names(columns)


def test_a_key_may_be_renamed() -> None:
    columns = plan(verb("rename_fields", fields={"id": "person"}))

    assert Column(1, "person", INT4, -1) == columns[0].column


@pytest.mark.parametrize(
    ("column", "zero", "type_oid"),
    [
        ("id", b"0", INT4),
        ("email", b"", TEXT),
        ("amount", b"0", NUMERIC),
        ("mood", b"", TEXT),
        ("scores", b"{}", ARRAY),
    ],
)
def test_zero_is_the_zero_of_the_type(column: str, zero: bytes, type_oid: int) -> None:
    relation = people(ReplicaIdentity.FULL)
    columns = plan(verb("mask", columns=[column], how="zero"), relation=relation)

    (masked,) = [each for each in columns if each.writer is not Writer.COPY]
    assert (column, zero, type_oid) == (masked.column.name, masked.fixed, masked.column.type_oid)


def test_redact_makes_a_text_of_any_type() -> None:
    columns = plan(verb("mask", columns=["scores"], how="redact", replacement="gone"))

    assert Written(Column(0, "scores", TEXT, -1), Writer.FIXED, b"gone") == columns[5]


def test_hash_and_token_go_by_what_is_one_value(salt: str) -> None:
    masks = [verb("mask", columns=["id", "amount"], how="hash", salt=salt)]
    columns = plan(*masks, verb("mask", columns=["code"], how="tokenise", salt=salt))

    assert Written(Column(1, "id", TEXT, -1), Writer.HASH, salt=SALT.encode()) == columns[0]
    assert (columns[2].writer, columns[2].canon) == (Writer.HASH, Canon.NUMERIC)
    assert (columns[3].writer, columns[3].canon, columns[3].column.type_oid) == (Writer.TOKEN, Canon.UNPADDED, UUID)


def test_what_is_redacted_can_still_be_hashed(salt: str) -> None:
    redact, hash_ = (
        verb("mask", columns=["email"], how="redact"),
        verb("mask", columns=["email"], how="hash", salt=salt),
    )

    assert (Writer.FIXED, hashed(b"***", SALT.encode())) == (
        plan(redact, hash_)[1].writer,
        plan(redact, hash_)[1].fixed,
    )


@pytest.mark.parametrize(
    ("transform", "code"),
    [
        (verb("drop_columns", columns=["id"]), "TRANSFORM_KEY_DROPPED"),
        (verb("drop_columns", columns=["*"]), "TRANSFORM_KEY_DROPPED"),
        (verb("mask", columns=["id"], how="redact"), "TRANSFORM_KEY_MASKED"),
        (verb("mask", columns=["id"], how="zero"), "TRANSFORM_KEY_MASKED"),
        (verb("rename_fields", fields={"email": "code"}), "TRANSFORM_NAME_TAKEN"),
        (verb("mask", tables=["public.people"], columns=["emial"], how="zero"), "TRANSFORM_COLUMN_MISSING"),
        (verb("drop_columns", tables=["public.people"], columns=["emial"]), "TRANSFORM_COLUMN_MISSING"),
        (verb("rename_fields", tables=["public.people"], fields={"emial": "x"}), "TRANSFORM_COLUMN_MISSING"),
    ],
)
def test_what_cannot_be_done_is_refused_and_only_of_shapes_that_come(transform: Transform, code: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plan(transform)

    assert code == caught.value.code
    assert caught.value.remedy
    assert len(people().columns) == len(plan(transform, is_strict=False))


def test_one_mask_does_not_hash_what_another_has_hashed(salt: str) -> None:
    mask = verb("mask", columns=["email"], how="hash", salt=salt)
    with pytest.raises(ConfigError) as caught:
        plan(mask, mask)

    assert caught.value.code == "TRANSFORM_MASKED_TWICE"


@pytest.mark.parametrize("patterns", [{"columns": ["emial"]}, {"columns": ["emi*"], "tables": ["public.people"]}])
def test_a_column_may_be_missing_where_a_pattern_is_meant(patterns: dict[str, Any]) -> None:
    assert plan() == plan(verb("mask", how="zero", **patterns))


def test_a_column_may_be_missing_where_that_is_said() -> None:
    mask = verb("mask", tables=["public.people"], columns=["emial"], how="zero", missing="ignore")

    assert plan() == plan(mask)


def test_under_full_identity_no_column_is_a_key() -> None:
    relation = people(ReplicaIdentity.FULL)

    assert "id" not in names(plan(verb("drop_columns", columns=["id"]), relation=relation))
    assert Writer.FIXED is plan(verb("mask", columns=["id"], how="redact"), relation=relation)[0].writer


def test_a_table_that_is_not_taken_is_left_alone() -> None:
    verbs = column_verbs([verb("drop_columns", columns=["id"])])

    assert [column.name for column in people().columns] == names(
        ColumnPlan(verbs, lambda *_: False)(people(), {}, True)
    )


def test_a_short_salt_is_refused(tmp_path: Path) -> None:
    (tmp_path / "salt").write_text("canary-7f3a")
    with pytest.raises(ConfigError) as caught:
        plan(verb("mask", columns=["email"], how="hash", salt=f"${{file:{tmp_path}/salt}}"))

    assert caught.value.code == "TRANSFORM_SALT_SHORT"
    assert "canary-7f3a" not in str(caught.value)
