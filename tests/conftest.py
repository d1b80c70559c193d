"""What takes longest begins first, so that nobody waits for it in the end."""

import pytest

_LONGEST = "tests/chaos/test_fleet.py::test_no_fault_breaks_an_invariant"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """After the shuffle of pytest-randomly; each worker of xdist has to come to the same order."""
    items.sort(key=lambda item: not item.nodeid.endswith(_LONGEST))
