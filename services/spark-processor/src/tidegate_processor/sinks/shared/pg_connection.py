"""A connection to a PostgreSQL whose statements may take long: the lane is heard of while one runs.

| a statement runs, and for a second nothing was said | |
| --- | --- |
| the server answers on a second connection, a refusal too | the work goes on: it is said |
| it has not answered there in time | it stands, or nobody can reach it: silence, for which the lane is killed |
| whoever is told says that the work is for nothing | the statement is cancelled |

Invariant: it is said between two statements, or while the server answers; never because time has passed (speaking.py).
"""

import contextlib
import time
from typing import Any

import psycopg
from psycopg.abc import RV, PQGen

from tidegate_processor.speaking import Speak, nobody_listens

CONNECT_SECONDS = 5
_SPEAK_SECONDS = 1.0
# The least that libpq takes. A server that needs longer for each of several tries is silent before the lane is killed.
_ANSWER_SECONDS = 2
# As psycopg's own: how often it looks up while the server says nothing.
_LOOK_UP_SECONDS = 0.1


class Connection(psycopg.Connection[tuple[Any, ...]]):
    def __init__(self, *arguments: Any, **options: Any) -> None:  # as psycopg makes it
        super().__init__(*arguments, **options)
        self.speak: Speak = nobody_listens
        self.way = ""
        """How the server is reached, with the password."""
        self._due = time.monotonic() + _SPEAK_SECONDS

    def wait(self, gen: PQGen[RV], interval: float = _LOOK_UP_SECONDS, timeout: float | None = None) -> RV:
        return super().wait(self._heard(gen), interval, timeout)

    def _heard(self, gen: PQGen[RV]) -> PQGen[RV]:
        if self._is_due:
            self._say()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and self._is_due and self._answers():
                    self._say()
                wanted = gen.send(ready)
        except StopIteration as done:
            result: RV = done.value
            return result

    @property
    def _is_due(self) -> bool:
        return self.speak is not nobody_listens and time.monotonic() >= self._due

    def _say(self) -> None:
        try:
            self.speak()
        except BaseException:  # whatever ends the lane, its statement is for nothing
            with contextlib.suppress(psycopg.Error):  # then the server ends it, when it finds its client gone
                self.cancel_safe(timeout=CONNECT_SECONDS)
            raise
        self._due = time.monotonic() + _SPEAK_SECONDS

    def _answers(self) -> bool:
        """Whether the server does, and be it that it takes no more connections."""
        try:
            psycopg.connect(self.way, connect_timeout=_ANSWER_SECONDS).close()
        except psycopg.errors.ConnectionTimeout:
            return False
        except psycopg.Error:
            return True
        return True
