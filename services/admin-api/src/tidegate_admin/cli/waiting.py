"""Asks again until the caller has heard enough."""

import time
from collections.abc import Callable, Iterator
from typing import Any

_EVERY_SECONDS = 0.3


def until(ask: Callable[[], Any]) -> Iterator[Any]:  # JSON
    while True:
        yield ask()
        time.sleep(_EVERY_SECONDS)
