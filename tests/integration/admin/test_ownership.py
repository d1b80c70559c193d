"""Several pipelines of one service on one server: what belongs to one is not touched through another."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from kit.pipelines import checked, document, secrets_of
from kit.servers import drop_database

from tidegate.config.pipeline import PipelineConfig
from tidegate_admin.errors import ApiError
from tidegate_admin.publications import service as publications
from tidegate_admin.publications.schemas import AddTable, RemoveTable
from tidegate_admin.slots import actions, listing
from tidegate_admin.slots.schemas import AdvanceSlot, SlotEntry, Whose
from tidegate_admin.source.session import Session, Sessions

REDIS = "redis://127.0.0.1:1/0"
GIVEN = {"manage": False, "names": ["given"]}
MANAGED = {"manage": True, "tables": ["public.*"]}
SLOT = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s"


@dataclass
class Neighbours:
    first: PipelineConfig
    """Reads the publication that is given; beside it are the next two."""
    other_database: PipelineConfig
    same_database: PipelineConfig
    source: psycopg.Connection[Any]
    other: psycopg.Connection[Any]

    @property
    def all(self) -> tuple[PipelineConfig, ...]:
        return (self.first, self.other_database, self.same_database)

    def ask(self, question: Callable[[Session], Awaitable[Any]]) -> Any:
        """On a connection of the first one's."""

        async def asking() -> Any:
            async with Sessions(self.first.source).changing() as session:
                return await question(session)

        return asyncio.run(asking())

    def slots(self) -> dict[str, SlotEntry]:
        found = self.ask(lambda session: listing.list_slots(session, self.all, self.first, after="", limit=1000))
        return {slot.name: slot for slot in found}


def config(dsn: str, name: str, publication: dict[str, Any]) -> PipelineConfig:
    source = document(name, kafka="127.0.0.1:1", redis_url=REDIS, postgres=dsn)["source"]
    values = document(name, kafka="127.0.0.1:1", redis_url=REDIS, source=source | {"publication": publication})
    return checked(values, secrets_of(redis_url=REDIS, postgres=dsn))


@pytest.fixture(scope="module")
def neighbours(postgres) -> Iterator[Neighbours]:
    names = [f"t{uuid.uuid4().hex[:12]}" for _ in range(3)]
    one, two = map(postgres.ensure_database, names[:2])
    secrets = secrets_of(redis_url=REDIS, postgres=one)
    told = (config(one, names[0], GIVEN), config(two, names[1], MANAGED), config(one, names[2], MANAGED))
    try:
        with (
            pytest.MonkeyPatch.context() as environ,
            psycopg.connect(one, autocommit=True) as source,
            psycopg.connect(two, autocommit=True) as other,
        ):
            for name, value in secrets.items():
                environ.setenv(name, value)
            source.execute("CREATE TABLE orders (id int PRIMARY KEY)")
            for publication in ("given", "unused", told[2].publication_names[0]):
                source.execute(psycopg.sql.SQL("CREATE PUBLICATION {}").format(psycopg.sql.Identifier(publication)))
            yield Neighbours(*told, source, other)
    finally:
        for name in names[:2]:
            drop_database(postgres.dsn(), name)


@pytest.fixture
def make(neighbours: Neighbours) -> Iterator[Callable[..., str]]:
    made: list[str] = []

    def create(name: str, connection: psycopg.Connection[Any]) -> str:
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [name])
        made.append(name)
        return name

    yield create
    drop = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = ANY(%s)"
    neighbours.other.execute(drop, [made])


def test_each_slot_is_told_as_its_pipelines(neighbours: Neighbours, make) -> None:
    """Whatever database of the server the pipeline that is asked reads."""
    for each in neighbours.all:
        make(each.source.slot.name, neighbours.other if each is neighbours.other_database else neighbours.source)
    found = neighbours.slots()
    for each in neighbours.all:
        slot = found[each.source.slot.name]
        assert (slot.whose, slot.pipeline) == (Whose.OWN, each.pipeline)


def test_a_slot_of_this_name_in_another_database_is_not_the_pipelines(neighbours: Neighbours, make) -> None:
    name = make(neighbours.first.source.slot.name, neighbours.other)
    assert (neighbours.slots()[name].whose, neighbours.slots()[name].pipeline) == (Whose.ORPHAN, None)


@pytest.mark.parametrize(
    ("whose", "code"),
    [
        ("other_database", "SLOT_OTHER_PIPELINE"),
        ("same_database", "SLOT_OTHER_PIPELINE"),
        ("nobody", "SLOT_OTHER_DATABASE"),
    ],
)
def test_no_pipeline_drops_or_advances_what_is_not_its_own(neighbours: Neighbours, make, whose: str, code: str) -> None:
    place = neighbours.source if whose == "same_database" else neighbours.other
    name = "tidegate_left_over" if whose == "nobody" else getattr(neighbours, whose).source.slot.name
    make(name, place)
    wanted = AdvanceSlot(to="FFFFFFFF/0", confirm=name, accept_loss=True)
    of = (neighbours.all, neighbours.first, name)
    for question in (
        lambda session: actions.drop(session, *of, name),
        lambda session: actions.advance(session, *of, wanted, None),
    ):
        with pytest.raises(ApiError) as caught:
            neighbours.ask(question)
        assert caught.value.code == code
    assert neighbours.source.execute(SLOT, [name]).fetchone() == (1,)


def test_an_orphan_of_its_own_database_is_still_dropped(neighbours: Neighbours, make) -> None:
    name = make("tidegate_orphan", neighbours.source)
    neighbours.ask(lambda session: actions.drop(session, neighbours.all, neighbours.first, name, name))
    assert neighbours.source.execute(SLOT, [name]).fetchone() == (0,)


def test_a_publication_that_the_pipeline_does_not_read_is_not_changed(neighbours: Neighbours) -> None:
    """Nor one that another pipeline's reader keeps."""
    of = (neighbours.all, neighbours.first)
    managed = neighbours.same_database.publication_names[0]
    add = AddTable(schema="public", table="orders")
    remove = RemoveTable(schema="public", table="orders", confirm="public.orders")
    for name, code in (("unused", "PUBLICATION_UNUSED"), (managed, "PUBLICATION_MANAGED")):
        for question in (
            lambda session, name=name: publications.add_table(session, *of, name, add),
            lambda session, name=name: publications.remove_table(session, *of, name, remove),
        ):
            with pytest.raises(ApiError) as caught:
                neighbours.ask(question)
            assert caught.value.code == code
    neighbours.ask(lambda session: publications.add_table(session, *of, "given", add))
    published = neighbours.source.execute("SELECT pubname FROM pg_publication_tables").fetchall()
    assert published == [("given",)]


def test_a_publication_that_another_pipelines_reader_keeps_is_told_as_kept(neighbours: Neighbours) -> None:
    of = (neighbours.all, neighbours.first)
    found = neighbours.ask(lambda session: publications.list_publications(session, *of, "", 100))
    managed = neighbours.same_database.publication_names[0]
    assert {each.name: each.is_managed for each in found} == {"given": False, "unused": False, managed: True}
