"""Sinks that require whole rows: what may not be sent whole is refused before anything is made."""

from typing import Any

from tidegate.errors import ExitCode

FULL, FIXED, PARTIAL = "complete", "numbers", "people"


def test_tables_whose_updates_may_not_be_sent_whole_are_refused_all_at_once(fleet: Any) -> None:
    for table in (FULL, PARTIAL):
        fleet.sql(f"CREATE TABLE {table} (id int PRIMARY KEY, note text)")
    fleet.sql(f"CREATE TABLE {FIXED} (id int PRIMARY KEY, amount bigint)")
    fleet.sql(f"ALTER TABLE {FULL} REPLICA IDENTITY FULL")
    fleet.settings["source"]["publication"]["tables"] = [f"public.{name}" for name in ("orders", FULL, FIXED, PARTIAL)]
    fleet.settings["sinks"][0]["toast"] = "require_full"

    assert fleet.exit_code(fleet.start()) == ExitCode.CONFIGURATION

    refused = fleet.log()
    assert refused.count("TOAST_IDENTITY") >= 2
    assert all(name in refused for name in ("orders", PARTIAL))
    assert not any(name in refused for name in (FULL, FIXED))
    assert not fleet.sql(f"SELECT FROM pg_replication_slots WHERE slot_name = '{fleet.slot}'")


def test_tables_that_the_sink_takes_no_updates_of_are_its_own_affair(fleet: Any) -> None:
    fleet.settings["sinks"][0] |= {
        "toast": "require_full",
        "routes": [{"tables": ["public.orders"], "operations": ["INSERT"]}, {"tables": ["public.others"]}],
    }

    assert fleet.reader() is not None
    assert "TOAST_IDENTITY" not in fleet.log()


def test_identity_full_lets_it_start(fleet: Any) -> None:
    fleet.settings["sinks"][0]["toast"] = "require_full"
    fleet.sql("ALTER TABLE orders REPLICA IDENTITY FULL")

    assert fleet.reader() is not None
    assert "TOAST_IDENTITY" not in fleet.log()


def test_the_leaves_of_a_partitioned_table_decide_whatever_its_root_says(fleet: Any) -> None:
    """The server looks at the leaf's identity; the root's was looked at, which it never reads."""
    fleet.sql("CREATE TABLE root (id int PRIMARY KEY, note text) PARTITION BY RANGE (id)")
    fleet.sql("CREATE TABLE leaf PARTITION OF root FOR VALUES FROM (0) TO (9)")
    fleet.sql("ALTER TABLE root REPLICA IDENTITY FULL")
    fleet.settings["source"]["publication"]["tables"] = ["public.root"]
    fleet.settings["sinks"][0] |= {"toast": "require_full", "routes": [{"tables": ["public.root"]}]}
    assert fleet.exit_code(fleet.start()) == ExitCode.CONFIGURATION
    assert "leaf" in fleet.log()

    fleet.sql("ALTER TABLE root REPLICA IDENTITY DEFAULT")
    fleet.sql("ALTER TABLE leaf REPLICA IDENTITY FULL")
    assert fleet.reader() is not None


def test_a_publication_without_updates_has_none_that_are_not_whole(fleet: Any) -> None:
    fleet.sql("CREATE PUBLICATION inserted FOR TABLE orders WITH (publish = 'insert, delete')")
    fleet.settings["source"]["publication"] = {"manage": False, "names": ["inserted"]}
    fleet.settings["sinks"][0]["toast"] = "require_full"
    assert fleet.reader() is not None
