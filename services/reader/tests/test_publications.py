"""Which statements bring a publication to what the configuration says."""

import pytest

from tidegate.config.source import Publication
from tidegate.errors import ConfigError
from tidegate_reader.sources.postgres_wal.publications import PublicationState, statements

MADE = PublicationState(False, True, frozenset({("public", "orders")}), frozenset())


def wanted(**settings: object) -> Publication:
    return Publication.model_validate({"name": "mine", "tables": ["public.orders"]} | settings)


def test_a_missing_one_is_made_as_the_version_knows_it() -> None:
    assert statements(wanted(), None, 180_000)[0] == (
        'CREATE PUBLICATION "mine" FOR TABLE "public"."orders" WITH (publish_via_partition_root = true)'
    )
    assert statements(wanted(), None, 120_000)[0] == 'CREATE PUBLICATION "mine" FOR TABLE "public"."orders"'


def test_one_that_is_right_is_left_alone() -> None:
    assert statements(wanted(), MADE, 180_000) == []


def test_tables_are_set_in_one_statement() -> None:
    more = wanted(tables=["public.orders", 'public."Odd ""Name"', "shop.*"])
    [change, _] = statements(more, MADE, 180_000)
    assert change == (
        'ALTER PUBLICATION "mine" SET TABLE "public"."orders", "public"."Odd ""Name", TABLES IN SCHEMA "shop"'
    )


def test_a_table_that_is_not_listed_any_more_is_taken_out() -> None:
    state = PublicationState(False, True, frozenset({("public", "orders"), ("public", "old")}), frozenset())
    assert statements(wanted(), state, 180_000)[0] == 'ALTER PUBLICATION "mine" SET TABLE "public"."orders"'


def test_limits_are_set_once() -> None:
    limited = wanted(limits=[{"table": "public.orders", "columns": ["id", "note"], "where": "id > 7"}])
    [change, comment] = statements(limited, MADE, 180_000)
    assert change == 'ALTER PUBLICATION "mine" SET TABLE "public"."orders" ("id", "note") WHERE (id > 7)'
    told = comment.split(" IS ")[1].strip("'")
    assert statements(limited, PublicationState(False, True, MADE.tables, MADE.schemas, told), 180_000) == []


def test_all_tables_and_some_tables_are_not_turned_into_each_other() -> None:
    with pytest.raises(ConfigError) as refused:
        statements(Publication.model_validate({"name": "mine", "all_tables": True}), MADE, 180_000)
    assert refused.value.code == "PUBLICATION_SCOPE"
