"""Publications and sessions as the source may have them."""

from typing import Any

from kit.wait import wait

from tidegate.errors import ExitCode
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.messages import Insert, Relation

HOSTILE = {
    "DateStyle": "German",
    "IntervalStyle": "sql_standard",
    "extra_float_digits": "-3",
    "TimeZone": "Asia/Kolkata",
    "bytea_output": "escape",
    "statement_timeout": "2s",
}


def test_values_do_not_depend_on_the_settings_of_the_database(fleet: Any) -> None:
    for name, value in HOSTILE.items():
        fleet.sql(f"ALTER DATABASE {fleet.name} SET {name} = '{value}'")
    fleet.sql("CREATE TABLE facts (id int PRIMARY KEY, at timestamptz, length interval, ratio float8, raw bytea)")
    fleet.settings["source"]["publication"]["tables"] = ["public.facts"]
    fleet.reader()
    fleet.sql(
        "INSERT INTO facts"
        " VALUES (1, '2026-03-04 05:06:07+00', '1 day 02:03:04', 0.30000000000000004, '\\x00ff'::bytea)"
    )
    wait(lambda: _rows(fleet), 10, "the row is in the raw topic")
    assert _rows(fleet) == [(b"1", b"2026-03-04 05:06:07+00", b"1 day 02:03:04", b"0.30000000000000004", b"\\x00ff")]


def test_all_tables_and_later_ones_are_published(fleet: Any) -> None:
    fleet.settings["source"]["publication"] = {"all_tables": True}
    fleet.reader()
    fleet.sql("CREATE TABLE later (id int PRIMARY KEY)")
    fleet.sql("INSERT INTO later VALUES (7)")
    wait(lambda: _rows(fleet) == [(b"7",)], 10, "the row is in the raw topic")


def test_a_table_that_is_added_to_the_list_is_added_to_the_publication(fleet: Any) -> None:
    fleet.sql('CREATE TABLE "Odd ""Name" (id int PRIMARY KEY)')
    reader = fleet.reader()
    fleet.stop(reader)
    fleet.settings["source"]["publication"]["tables"] += ['public."Odd ""Name"']
    fleet.reader()
    fleet.sql('INSERT INTO "Odd ""Name" VALUES (1)')
    wait(lambda: _rows(fleet) == [(b"1",)], 10, "the row is in the raw topic")


def test_a_whole_schema_is_published(fleet: Any) -> None:
    fleet.sql("CREATE SCHEMA shop")
    fleet.settings["source"]["publication"]["tables"] = ["shop.*"]
    fleet.reader()
    fleet.sql("CREATE TABLE shop.later (id int PRIMARY KEY)")
    fleet.sql("INSERT INTO shop.later VALUES (7)")
    wait(lambda: _rows(fleet) == [(b"7",)], 10, "the row is in the raw topic")


def test_partitions_are_published_as_their_root(fleet: Any) -> None:
    fleet.sql("CREATE TABLE root (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    fleet.sql("CREATE TABLE leaf PARTITION OF root FOR VALUES FROM (0) TO (100)")
    fleet.settings["source"]["publication"]["tables"] = ["public.root"]
    fleet.reader()
    fleet.sql("INSERT INTO root VALUES (7)")
    wait(lambda: _rows(fleet) == [(b"7",)], 10, "the row is in the raw topic")
    [frame] = [each for each in fleet.frames() if each.header.changes]
    described = [decode_message(entry.message) for entry in frame.schema]
    assert [each.name for each in described if isinstance(each, Relation)] == ["root"]


def test_given_publications_are_used_as_they_are(fleet: Any) -> None:
    fleet.sql("CREATE TABLE keyless (note text)")
    fleet.sql("""CREATE PUBLICATION "it's, mine" FOR TABLE keyless WITH (publish = 'insert')""")
    fleet.settings["source"]["publication"] = {"manage": False, "names": ["it's, mine"]}
    fleet.reader()
    fleet.sql("INSERT INTO keyless VALUES ('a')")
    wait(lambda: _rows(fleet) == [(b"a",)], 10, "the row is in the raw topic")


def test_a_role_without_the_right_to_replicate_is_told_so(fleet: Any) -> None:
    role = f"{fleet.name}_plain"
    fleet.sql(f"CREATE ROLE {role} LOGIN PASSWORD 'plain-password'")
    try:
        fleet.settings["source"] |= {"user": role, "password": "${env:PLAIN_PASSWORD}"}
        fleet.variables["PLAIN_PASSWORD"] = "plain-password"
        assert fleet.exit_code(fleet.start()) == ExitCode.CONFIGURATION
        assert "ROLE_REPLICATION" in fleet.log()
        fleet.variables["PLAIN_PASSWORD"] = "wrong-password"
        assert fleet.exit_code(fleet.start()) == ExitCode.CONFIGURATION
        assert "SOURCE_REFUSED" in fleet.log()
        assert "wrong-password" not in fleet.log()
    finally:
        fleet.sql(f"DROP ROLE {role}")


def _rows(fleet: Any) -> list[tuple[object, ...]]:
    return [each.new for each in fleet.messages() if isinstance(each, Insert)]


def test_columns_and_rows_can_be_left_out(fleet: Any) -> None:
    fleet.sql("CREATE TABLE people (id int PRIMARY KEY, name text, secret text)")
    fleet.settings["source"]["publication"] |= {
        "tables": ["public.people"],
        "limits": [{"table": "public.people", "columns": ["id", "name"], "where": "id > 10"}],
    }
    reader = fleet.reader()
    fleet.sql("INSERT INTO people VALUES (1, 'one', 'hidden'), (11, 'eleven', 'hidden')")
    wait(lambda: _rows(fleet) == [(b"11", b"eleven")], 10, "the row is in the raw topic")
    fleet.stop(reader)
    fleet.settings["source"]["publication"]["limits"] = [{"table": "public.people", "columns": ["id"]}]
    fleet.reader()
    fleet.sql("INSERT INTO people VALUES (2, 'two', 'hidden')")
    wait(lambda: _rows(fleet) == [(b"11", b"eleven"), (b"2",)], 10, "the second row is in the raw topic")


def test_a_limit_whose_columns_miss_the_identity_is_refused(fleet: Any) -> None:
    fleet.sql("CREATE TABLE people (id int PRIMARY KEY, name text)")
    fleet.sql("CREATE PUBLICATION narrow FOR TABLE people (name)")
    fleet.settings["source"]["publication"] = {"manage": False, "names": ["narrow"]}
    assert fleet.exit_code(fleet.start()) == ExitCode.CONFIGURATION
    assert "IDENTITY_NARROWED" in fleet.log()


def test_tables_without_identity_can_be_allowed(fleet: Any) -> None:
    fleet.sql("CREATE TABLE keyless (note text)")
    fleet.settings["source"]["publication"] |= {"tables": ["public.keyless"], "without_identity": "allow"}
    fleet.reader()
    fleet.sql("INSERT INTO keyless VALUES ('a')")
    wait(lambda: _rows(fleet) == [(b"a",)], 10, "the row is in the raw topic")
    assert "REPLICA_IDENTITY" in fleet.log()


def test_tables_come_and_go_without_a_restart(fleet: Any) -> None:
    fleet.sql("CREATE TABLE more (id int PRIMARY KEY)")
    fleet.reader()
    fleet.sql(f"ALTER PUBLICATION tidegate_{fleet.name} ADD TABLE more")
    fleet.sql("INSERT INTO more VALUES (1)")
    fleet.sql(f"ALTER PUBLICATION tidegate_{fleet.name} DROP TABLE more")
    fleet.sql("INSERT INTO more VALUES (2)")
    fleet.sql("INSERT INTO orders (id, note) VALUES (3, 'end')")
    wait(lambda: len(_rows(fleet)) >= 2, 10, "the last row is in the raw topic")
    assert _rows(fleet) == [(b"1",), (b"3", b"end")]


def test_a_managed_publication_that_vanished_is_not_made_again(fleet: Any) -> None:
    fleet.stop(fleet.reader())
    fleet.sql(f"DROP PUBLICATION tidegate_{fleet.name}")
    assert fleet.exit_code(fleet.start()) == ExitCode.LOST
    assert fleet.status().failure.code == "PUBLICATION_MISSING"
    assert not fleet.sql("SELECT FROM pg_publication")


def test_a_publication_that_vanishes_is_noticed_without_traffic(fleet: Any) -> None:
    reader = fleet.reader()
    fleet.sql(f"DROP PUBLICATION tidegate_{fleet.name}")
    assert fleet.exit_code(reader, within_seconds=20) == ExitCode.LOST
    assert fleet.status().failure.code == "PUBLICATION_MISSING"
