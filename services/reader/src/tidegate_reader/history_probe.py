"""Before a re-feed: the server sends the raw topic's last transaction again, first and on a link of its own.

A re-feed frames from the lowest position that a sink has. What another history has there would be in the raw topic
before its lack of the last transaction shows (`history.py`); so that one is asked for, and nothing else is read.
Invariant: nothing is framed or confirmed here, and afterwards the slot is free.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from tidegate.contracts.epoch import EpochMode
from tidegate.errors import StreamError, TransientError
from tidegate.pgoutput.wire import Keepalive, decode_envelope
from tidegate.position import BEGINNING
from tidegate_reader.feedback import SILENCE_SECONDS, answering
from tidegate_reader.history import HistoryCheck
from tidegate_reader.resume import Plan
from tidegate_reader.sources.postgres_wal.failures import silent
from tidegate_reader.sources.postgres_wal.session import SideConnection
from tidegate_reader.sources.postgres_wal.slots import read_slot
from tidegate_reader.sources.postgres_wal.stream import ReplicationStream
from tidegate_reader.transactions import TransactionTracker

_LOOK_SECONDS = 5.0
_FREED_SECONDS = 10.0
_FREED_LOOK_SECONDS = 0.1


def foresees_refeed(decide: Callable[[], Plan]) -> bool:
    """A refusal is not for here: acks may still come."""
    try:
        return decide().mode is EpochMode.REFEED
    except StreamError:
        return False


async def probe(stream: ReplicationStream, command: str, history: HistoryCheck) -> None:
    """Raises if the server tells another history. `command` starts at the last transaction."""
    try:
        async with answering(stream):
            await stream.start(command)
            await _judged(stream, history)
        with suppress(TransientError):
            await stream.end()
    finally:
        stream.close()


async def until_free(side: SideConnection, slot: str) -> None:
    """The server needs a moment to see the end of a link. Whoever else holds the slot is met at the start."""
    deadline = time.monotonic() + _FREED_SECONDS
    while time.monotonic() < deadline:
        state = await read_slot(side, slot)
        if state is None or state.active_pid is None:
            return
        await asyncio.sleep(_FREED_LOOK_SECONDS)


async def _judged(stream: ReplicationStream, history: HistoryCheck) -> None:
    transaction = TransactionTracker(BEGINNING, history)
    while True:
        batch = stream.read()
        for data in batch:
            _hear(transaction, bytes(data))
            if not history.awaits_last:
                return
        if not batch:
            if time.monotonic() - stream.last_heard > SILENCE_SECONDS:
                raise silent()
            await stream.readable(_LOOK_SECONDS)


def _hear(transaction: TransactionTracker, data: bytes) -> None:
    envelope = decode_envelope(data)
    if isinstance(envelope, Keepalive):
        transaction.passes(envelope.end)
    elif envelope.data[:1] == b"B":
        transaction.begin(envelope.data)
    elif envelope.data[:1] == b"C":
        transaction.commit(envelope.data)
