"""Waiting for a condition with a deadline, in place of sleeping for as long as it usually takes."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

Found = TypeVar("Found")

EVERY_SECONDS = 0.02


class DeadlinePassedError(AssertionError):
    """The condition did not come true in time."""


def wait(
    condition: Callable[[], Found], deadline_seconds: float, what: str, every_seconds: float = EVERY_SECONDS
) -> Found:
    """The first true value of the condition; what it raises is not caught."""
    deadline = time.monotonic() + deadline_seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise DeadlinePassedError(_message(what, deadline_seconds, found))
        time.sleep(every_seconds)
    return found


async def wait_async(
    condition: Callable[[], Found | Awaitable[Found]],
    deadline_seconds: float,
    what: str,
    every_seconds: float = EVERY_SECONDS,
) -> Found:
    """As `wait`; the condition may be a coroutine function, which the deadline cuts off too."""
    last: object = None
    try:
        async with asyncio.timeout(deadline_seconds):
            while True:
                answer = condition()
                last = found = await answer if inspect.isawaitable(answer) else answer
                if found:
                    return found
                await asyncio.sleep(every_seconds)
    except TimeoutError:
        raise DeadlinePassedError(_message(what, deadline_seconds, last)) from None


def _message(what: str, deadline_seconds: float, last: object) -> str:
    return f"not within {deadline_seconds} s: {what} (last seen: {last!r})"
