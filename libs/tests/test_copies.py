import pytest

from tidegate.copies import BROKERS_OWN, copies, in_sync


@pytest.mark.parametrize(
    ("asked", "made", "needs"), [(None, BROKERS_OWN, None), (1, 1, None), (2, 2, None), (3, 3, "2"), (5, 5, "2")]
)
def test_what_one_disk_alone_holds_is_nothing_where_three_copies_are_asked_for(
    asked: int | None, made: int, needs: str | None
) -> None:
    assert copies(asked) == made
    assert in_sync(asked).get("min.insync.replicas") == needs
