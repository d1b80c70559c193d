"""What the reader's production code is given for PostgreSQL, Kafka and Redis connections.

Every method that would wait for the outside pauses once first, so that other actors act in between.
"""

import struct
from collections import deque
from typing import TYPE_CHECKING, Any

from aiokafka.errors import KafkaError
from chaos.simulator.clock import Pause
from chaos.simulator.faults import broken_link
from chaos.simulator.kafka import Outcome, Producer, TailConsumer
from chaos.simulator.postgres import Server, Walsender

from tidegate.lsn import Lsn, format_lsn, parse_lsn
from tidegate_reader import raw_log
from tidegate_reader.opening import Checked
from tidegate_reader.publisher import epoch_over
from tidegate_reader.raw_topic import unavailable
from tidegate_reader.sources.postgres_wal.slots import check_slot, read_slot

if TYPE_CHECKING:
    from chaos.simulator.world import World

_STATUS = struct.Struct(">xQQQqB")
SERVER_VERSION = 180004


class Stream:
    """`ReplicationStream`: one connection, which the server may have given up without our knowing."""

    def __init__(self, world: "World") -> None:
        self._world, self._server = world, world.server
        self._life = world.server.crashes
        self._sender: Walsender | None = None
        self._arrived: deque[bytes] = deque()
        self._is_closed = False
        self.is_waited_for = False
        """Somebody stands in `readable`."""
        self.last_heard = world.time.now

    async def execute(self, command: str) -> list[tuple[str | None, ...]]:
        await Pause()
        server = self._live_server()
        if command == "IDENTIFY_SYSTEM":
            return [(str(server.system), str(server.timeline), "0/0", None)]
        if command.startswith("TIMELINE_HISTORY"):
            lines = "".join(f"{timeline}\t{format_lsn(lsn)}\tpromoted\n" for timeline, lsn in server.left)
            return [("history", lines)]
        waited_for = set(server.open)
        while waited_for & set(server.open):
            await Pause()
            self._live_server()
        slot = self._world.slot_created(self._world.config.source.slot.name)
        return [(slot.name, format_lsn(slot.confirmed), None, "pgoutput")]

    async def start(self, command: str) -> None:
        await Pause()
        server = self._live_server()
        self._sender = server.start(parse_lsn(command.split("LOGICAL ")[1].split(" ")[0]))
        self._world.note(f"START_REPLICATION {self._sender}")

    def read(self) -> list[bytes]:
        sender = self._sender
        if sender is None or self._is_closed:
            raise broken_link()
        most = self.drawn()
        source = sender.out
        batch = [source.popleft() for _ in range(min(most, len(source)))]
        if not batch and not sender.is_alive:
            raise broken_link()
        if batch:
            self.last_heard = self._world.time.now
        return batch

    async def readable(self, timeout_seconds: float) -> None:
        self.is_waited_for = True
        await Pause()
        self.is_waited_for = False

    @property
    def has_nothing(self) -> bool:
        sender = self._sender
        return sender is not None and not self._is_closed and sender.is_alive and not sender.out

    def drawn(self) -> int:
        """How much of what has arrived a look at the socket brings, at most."""
        return self._world.dice.randint(0, 24)

    def wake(self) -> None:
        return

    async def send(self, status: bytes) -> None:
        if self._is_closed or self._sender is None:
            raise broken_link()
        self._sender.statuses.append(status)

    async def end(self) -> None:
        self.close()

    def adopt(self, other: "Stream") -> None:
        self._server, self._life, self._is_closed = other._server, other._life, other._is_closed

    def close(self) -> None:
        """Clean or not: the server notices, now or some time later."""
        self._is_closed = True
        if self._sender is not None:
            self._world.link_closed(self._sender)

    def _live_server(self) -> Any:
        if self._is_closed or not _is_the_same(self._world, self._server, self._life):
            raise broken_link()
        return self._server


class Side:
    """`SideConnection`."""

    def __init__(self, world: "World") -> None:
        self._world, self._server = world, world.server
        self._life = world.server.crashes

    async def fetch(self, query: str, parameters: object = ()) -> list[tuple[Any, ...]]:
        await Pause()
        self._check()
        slot = self._server.slot
        if slot is None:
            return []
        row = {
            "slot_name": self._world.config.source.slot.name,
            "plugin": "pgoutput",
            "database": self._world.config.source.database,
            "active_pid": None,
            "confirmed_flush_lsn": format_lsn(slot.confirmed),
            "restart_lsn": format_lsn(slot.restart),
            "wal_status": "reserved",
            "two_phase": False,
            "failover": True,
            "synced": slot.synced,
            "safe_wal_size": None,
        }
        return [(row,)]

    async def value(self, query: str, parameters: object = ()) -> Any:
        await Pause()
        self._check()
        return False if query.startswith("SELECT pg_is_in_recovery") else format_lsn(self._server.wal_end)

    def _check(self) -> None:
        if not _is_the_same(self._world, self._server, self._life):
            raise broken_link()


def _is_the_same(world: "World", server: Server, life: int) -> bool:
    """Whether a connection that was made then still leads there."""
    return server is world.server and server.is_up and server.crashes == life


def flush_of(status: bytes) -> Lsn:
    return Lsn(_STATUS.unpack(status)[1])


async def check(world: "World", side: Side) -> Checked:
    """`opening.check` without what needs a server's catalogue: the slot, then the topic, as it looks at them."""
    slot = await read_slot(side, world.config.source.slot.name)  # type: ignore[arg-type]
    await Pause()
    topic_id = world.topic.id
    if slot is not None:
        check_slot(slot, world.config.source.database)
    return Checked(SERVER_VERSION, topic_id, slot)


async def read_raw_log(world: "World", topic_id: str) -> raw_log.RawLog:
    await Pause()
    until = world.time.now + raw_log.READ_SECONDS
    consumer = TailConsumer(world.topic, lambda: world.time.now > until)
    try:
        return await raw_log._read(consumer, "raw", topic_id)  # type: ignore[arg-type]
    except KafkaError as error:
        raise unavailable(error) from error


async def publish_epoch_frame(producer: Producer, data: bytes, expected_offset: int) -> None:
    """As `publisher.publish_epoch_frame`, which waits on a future of the event loop."""
    produce = producer.send(data)
    while produce.outcome is Outcome.PENDING:
        await Pause()
    if produce.outcome is Outcome.FAILED:
        raise epoch_over("no acknowledgement in time")
    if produce.offset != expected_offset:
        raise epoch_over("the epoch frame is elsewhere")
