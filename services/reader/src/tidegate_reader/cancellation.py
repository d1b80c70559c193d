"""A cancellation that a library has lost.

`asyncio.wait_for` of Python 3.11 returns normally when what it waits for is done at the moment of the cancellation
(cpython 86296); redis-py sends and psycopg waits with it, so a loop around them would go on for ever.
"""

import asyncio


def raise_if_cancelled() -> None:
    """After each call into such a library."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
