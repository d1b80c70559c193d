"""Who sees which relation, and when two descriptions are the same schema version."""

from dataclasses import replace

import pytest

from tidegate.errors import StreamError
from tidegate.pgoutput.messages import Column, Relation, ReplicaIdentity, Type
from tidegate.pgoutput.relations import RelationMap, schema_version

MOOD = Type(16500, "public", "mood")
OLD = Relation(16384, "public", "t", ReplicaIdentity.DEFAULT, (Column(1, "id", 23, -1), Column(0, "m", 16500, -1)))
NEW = replace(OLD, columns=(*OLD.columns, Column(0, "more", 25, -1)))


def test_what_a_streamed_transaction_says_is_its_own_until_it_commits() -> None:
    relations = RelationMap()
    relations.learn(OLD)
    relations.learn(NEW, xid=750)

    assert relations.relation(16384, xid=750) == NEW
    assert relations.relation(16384) == OLD
    assert relations.relation(16384, xid=751) == OLD

    relations.promote(750)
    assert relations.relation(16384) == NEW


def test_what_an_aborted_transaction_said_is_forgotten() -> None:
    relations = RelationMap()
    relations.learn(OLD)
    relations.learn(NEW, xid=750)
    relations.learn(MOOD, xid=750)
    assert dict(relations.types(xid=750)) == {16500: MOOD}

    relations.drop(750)

    assert relations.relation(16384, xid=750) == OLD
    assert dict(relations.types(xid=750)) == {}


def test_a_relation_nobody_described_stops_the_stream() -> None:
    with pytest.raises(StreamError) as refused:
        RelationMap().relation(1)
    assert refused.value.code == "RELATION_UNKNOWN"


def test_a_version_is_the_same_for_ever() -> None:
    """Frames and caches are keyed by it: a change of this literal splits every schema in two."""
    assert schema_version(OLD, {16500: MOOD}) == "5d0c64f42d62a87735c123a4f50f1e1d"


def test_a_version_does_not_depend_on_where_it_was_said() -> None:
    assert schema_version(OLD, {}) == schema_version(replace(OLD, xid=750), {99: MOOD})


@pytest.mark.parametrize(
    ("relation", "types"),
    [
        (NEW, {16500: MOOD}),
        (replace(OLD, relation_id=1), {16500: MOOD}),
        (replace(OLD, namespace="other"), {16500: MOOD}),
        (replace(OLD, name="u"), {16500: MOOD}),
        (replace(OLD, replica_identity=ReplicaIdentity.FULL), {16500: MOOD}),
        (replace(OLD, columns=(replace(OLD.columns[0], typmod=4), OLD.columns[1])), {16500: MOOD}),
        (replace(OLD, columns=OLD.columns[::-1]), {16500: MOOD}),
        (OLD, {}),
        (OLD, {16500: replace(MOOD, name="other")}),
    ],
)
def test_every_part_is_in_the_version(relation: Relation, types: dict[int, Type]) -> None:
    assert schema_version(OLD, {16500: MOOD}) != schema_version(relation, types)


def test_the_map_gives_the_version_that_a_transaction_sees() -> None:
    relations = RelationMap()
    relations.learn(OLD)
    relations.learn(NEW, xid=750)

    assert schema_version(OLD, {}) == relations.version(16384)
    assert schema_version(NEW, {}) == relations.version(16384, xid=750)
