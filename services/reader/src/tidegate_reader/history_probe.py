"""Before a re-feed: the server sends the raw topic's last transaction again, first and on a link of its own.

A re-feed frames from the lowest position that a sink has, and where it is cut short, the next epoch goes on there. What
another history has there would be in the raw topic before its lack of the last transaction shows (`history.py`); so
that one is asked for, and nothing else is read.
Invariant: nothing is framed or confirmed here, afterwards the slot is free, and never are two links open: a server may
have one WAL sender to spare.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from tidegate.errors import StreamError, TransientError
from tidegate.lsn import Lsn
from tidegate.pgoutput.wire import Keepalive, decode_envelope
from tidegate.position import BEGINNING, Position
from tidegate_reader.feedback import SILENCE_SECONDS, answering
from tidegate_reader.history import HistoryCheck
from tidegate_reader.sources.postgres_wal.failures import silent
from tidegate_reader.sources.postgres_wal.session import SideConnection
from tidegate_reader.sources.postgres_wal.slots import read_slot
from tidegate_reader.sources.postgres_wal.stream import ReplicationStream
from tidegate_reader.transactions import TransactionTracker

_LOOK_SECONDS = 5.0
_STUCK_SECONDS = 600.0
"""A server that has long to read before what is awaited gets further all the while, and says so."""
_FREED_SECONDS = 10.0
_FREED_LOOK_SECONDS = 0.1


def has_to_ask(history: HistoryCheck, skips_to: Callable[[], Position]) -> bool:
    """A refusal is not for here: acks may still come."""
    try:
        return history.awaits_last and history.is_ahead_of(skips_to())
    except StreamError:
        return False


async def ask(
    idle: ReplicationStream,
    connect: Callable[[], Awaitable[ReplicationStream]],
    command: str,
    history: HistoryCheck,
    side: SideConnection,
    slot: str,
) -> None:
    """`idle` has not started; it is closed meanwhile and has a new link afterwards, to the same server."""
    [(*before, _, _)] = await idle.execute("IDENTIFY_SYSTEM")
    idle.close()
    try:
        await probe(await connect(), command, history)
    except StreamError:
        await _check_not_let_go(side, slot, history)
        raise
    await until_free(side, slot)
    idle.adopt(await connect())
    [(*after, _, _)] = await idle.execute("IDENTIFY_SYSTEM")
    if after != before:
        raise TransientError(
            "behind the address there is another server now", code="EPOCH_RACE", remedy="The reader starts again."
        )


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


async def _check_not_let_go(side: SideConnection, slot: str, history: HistoryCheck) -> None:
    """A slot that was moved beyond it meanwhile, as by the last word of a reader that was ending, sends nobody what was
    asked for, and proves nothing."""
    state = await read_slot(side, slot)
    if state is not None and state.confirmed is not None and state.confirmed > history.told.commit_lsn:
        raise TransientError(
            "the slot was moved while the server was asked", code="EPOCH_RACE", remedy="The reader starts again."
        )


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
    furthest, since = Lsn(0), time.monotonic()
    while True:
        batch = stream.read()
        for data in batch:
            reached = _hear(transaction, bytes(data))
            if not history.awaits_last:
                return
            if reached is None or reached > furthest:
                furthest, since = reached or furthest, time.monotonic()
        if time.monotonic() - since > _STUCK_SECONDS:
            raise _stuck()
        if not batch:
            if time.monotonic() - stream.last_heard > SILENCE_SECONDS:
                raise silent()
            await stream.readable(_LOOK_SECONDS)


def _stuck() -> TransientError:
    return TransientError(
        f"the server has got no further for {_STUCK_SECONDS:.0f} s on its way to the raw topic's last transaction",
        code="HISTORY_UNTOLD",
        remedy="The reader asks again. If it repeats, look at the server's WAL sender and its disk.",
    )


def _hear(transaction: TransactionTracker, data: bytes) -> Lsn | None:
    """How far the server is, if it says only that."""
    envelope = decode_envelope(data)
    if isinstance(envelope, Keepalive):
        transaction.passes(envelope.end)
        return envelope.end
    if envelope.data[:1] == b"B":
        transaction.begin(envelope.data)
    elif envelope.data[:1] == b"C":
        transaction.commit(envelope.data)
    return None
