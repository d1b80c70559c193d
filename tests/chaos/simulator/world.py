"""Everything of one run, and what each kind of step does to it.

Invariant: a step changes the world only by what its own dice say, so a run is its plan.
"""

from collections import Counter
from collections.abc import Callable

from chaos.simulator.ack_store import Redis
from chaos.simulator.clock import VirtualTime
from chaos.simulator.dice import Dice
from chaos.simulator.edges import flush_of
from chaos.simulator.faults import Fault
from chaos.simulator.file import File
from chaos.simulator.gaps import Notes
from chaos.simulator.kafka import Producer, RawTopic
from chaos.simulator.lane import Lane
from chaos.simulator.oracle import Oracle, Violation
from chaos.simulator.plan import Plan
from chaos.simulator.postgres import Server, Slot, Transaction, Walsender
from chaos.simulator.production import configuration
from chaos.simulator.reader import ReaderProcess
from chaos.simulator.verdicts import check_lane_lost, check_reader_lost
from chaos.simulator.workload import Workload

from tidegate.contracts.lineage import decode_lineage
from tidegate.contracts.names import lineage_key
from tidegate.errors import ExitCode, TidegateError
from tidegate.lsn import Lsn

FIRST_SYSTEM = 7_300_000_000_000_000_001
_FIRST_LSN = 0x100_0000


class World:
    def __init__(self, plan: Plan, say: Callable[[str], None] | None = None) -> None:
        self.plan, self.seed, self.frame_bytes = plan, plan.seed, plan.frame_bytes
        self.time = VirtualTime()
        self.dice = Dice(plan.seed)
        named = tuple((f"lane{number}", each) for number, each in enumerate(plan.required))
        self.config = configuration(named, resnapshots=plan.resnapshots)
        """What the file says; who runs goes by what it has taken over."""
        self.notes = Notes()
        self.oracle = Oracle([(sink.name, sink.required) for sink in self.config.sinks])
        self.server = Server(FIRST_SYSTEM, 1, _FIRST_LSN, "shop")
        self.workload = Workload(self.server, poison=Fault.REJECTED_ROWS in plan.faults)
        self.topic = self.oracle.topic = RawTopic(self.oracle.logged)
        self.redis = Redis(self.oracle.acked, self._said, self.oracle.recorded)
        self.lanes = [
            Lane(self, self.oracle.lanes[sink.name], sink, cursor_in_group=plan.cursors_in_group)
            for sink in self.config.sinks
        ]
        self.file = File(self)
        self.producers: list[Producer] = []
        self.ghosts: list[Walsender] = []
        """Senders whose client is gone and who do not know it yet."""
        self.readers: list[ReaderProcess] = []
        """The supervisor's own one last; zombies before it."""
        self.reader_lost: TidegateError | None = None
        self.slot_was_tampered = False
        self.lineage_is_gone = False
        """Redis and the raw topic were lost together: nobody knows the generation any more."""
        self.is_healing = False
        self.next_produce: Fault | None = None
        self.counts: Counter[str] = Counter()
        self._say = say
        self.acting: ReaderProcess | None = None
        self._starts = 0
        self._next_start = 0.0
        self._lineage_began = False

    def note(self, text: str) -> None:
        if self._say is not None:
            self._say(f"  {self.time.now:8.2f} {text}")

    def close(self) -> None:
        for reader in self.readers:
            reader.close()

    def after(self, action: str) -> None:
        self.time.now += self.dice.choice((0.001, 0.005, 0.02, 0.1, 0.1, 0.4))
        try:
            self.oracle.check(self.server.slot)
        except Violation:
            self.note(f"seen after {action}")
            raise

    # What actors do.

    def load(self) -> None:
        for _ in range(self.dice.randint(1, 4)):
            transaction = self.workload.step(self.dice)
            if transaction is not None:
                self.commit(transaction)

    def commit(self, transaction: Transaction) -> None:
        entry = self.server.commit(transaction)
        if entry.changes and self._lineage_began and not self.oracle.is_forked:
            self.oracle.committed(entry)

    def send(self) -> None:
        """The walsender decodes, reads statuses, and sometimes says how far it is."""
        self._bury_ghosts()
        sender = self.server.sender
        if sender is None or not self.server.is_up:
            return
        sender.decode(self.dice.randint(0, 3))
        if self.dice.random() < 0.35:
            sender.keepalive(reply=self.dice.random() < 0.1)
        while sender.statuses and self.dice.random() < 0.8:
            self._status(sender, flush_of(sender.statuses.popleft()))

    def read(self) -> None:
        reader = self._reader()
        if reader is None:
            if self.time.now >= self._next_start and self.reader_lost is None:
                self.start_reader()
            return
        for _ in range(self.dice.randint(1, 6)):
            reader.turn()
            if self.dice.random() < 0.5:
                reader.settle()

    def broker(self) -> None:
        busy = [producer for producer in self.producers if producer.under_way]
        if not busy:
            return
        producer = self.dice.choice(busy)
        for _ in range(min(len(producer.under_way), self.dice.randint(1, 8))):
            if producer.is_abandoned and self.dice.random() < 0.3:
                producer.under_way.clear()  # the connection closed before the broker read the rest
                self.counts["abandoned produce lost"] += 1
                break
            self.counts["abandoned produce landed"] += producer.is_abandoned
            self._land(producer)

    def _land(self, producer: Producer) -> None:
        fault, self.next_produce = self.next_produce, None
        if fault is Fault.PRODUCE_LOST:
            producer.lose()
        else:
            producer.land(answered=fault is not Fault.ANSWER_LOST)

    def lane(self) -> None:
        if not self.file.is_taken and self.dice.random() < 0.03:
            self.file.take()
        lane = self.dice.choice(self.lanes)
        if lane.old_workers and self.dice.random() < 0.4:
            lane.old_turn(self.dice.randint(0, 6))
        else:
            lane.turn(self.dice.choice((0, 1, 2, 3, 8, 20)))

    def acks(self) -> None:
        for reader in self.readers:
            reader.poll_acks()
            reader.take_file()

    def status(self) -> None:
        for reader in self.readers:
            reader.send_status()
            reader.take_file()

    def look(self) -> None:
        for reader in self.readers:
            reader.look()

    def checkpoint(self) -> None:
        self.server.checkpoint()

    def save(self) -> None:
        self.redis.save()

    # What actors tell the world.

    def start_reader(self) -> None:
        self._starts += 1
        self.readers = [*self.readers, ReaderProcess(self, self._starts)]

    def slot_created(self, name: str) -> Slot:
        self._lineage_began = True
        slot = self.server.create_slot(name)
        self.oracle.moved_floor = slot.confirmed
        if self.lineage_is_gone:
            self.oracle.excused_below = slot.confirmed
        return slot

    @property
    def has_begun(self) -> bool:
        """Whether the raw topic has ever held a frame."""
        return self.topic.births > 1 or self.topic.was_wiped or bool(self.topic.records)

    @property
    def is_known(self) -> bool:
        """Whether a reader has ever said where it works: before that nobody knows of the slot."""
        return self.has_begun or self.redis.seen(lineage_key(self.config.pipeline)) is not None

    def pipeline_begins_anew(self) -> None:
        self._lineage_began = False
        self.oracle.begin_anew()

    def new_producer(self) -> Producer:
        producer = Producer(self.topic)
        self.producers.append(producer)
        assert self.acting is not None
        self.acting.producer = producer
        return producer

    def link_closed(self, sender: Walsender) -> None:
        if self.is_healing or self.dice.random() < 0.6:
            self._free(sender)
        else:
            self.ghosts.append(sender)

    def reader_ended(self, reader: ReaderProcess) -> None:
        if reader in self.readers:
            self.readers.remove(reader)
        self.note(f"reader {reader.number} ended: {reader.error or reader.exit_code}")
        self._abandon_producers()
        if reader.exit_code is ExitCode.CONFIGURATION:
            raise Violation("I7", "the reader refuses its configuration", str(reader.error))
        if reader.exit_code is ExitCode.LOST:
            self.reader_lost = reader.error
            self.counts[f"reader LOST {reader.error and reader.error.code}"] += 1
            check_reader_lost(self, reader.error)
        self._next_start = self.time.now + 0.5

    def lane_lost(self, lane: Lane, error: TidegateError) -> None:
        self.counts[f"lane LOST {error.code}"] += 1
        check_lane_lost(self, lane, error)

    def _said(self, key: str, value: bytes) -> None:
        if key == lineage_key(self.config.pipeline):
            slot = self.server.slot
            own = [reader.gate.confirmed for reader in self.readers if reader.gate]
            reached = max([slot.confirmed if slot else Lsn(0), *own])
            self.oracle.named(decode_lineage(value), reached, is_forgotten=self.redis.has_forgotten)

    def _reader(self) -> ReaderProcess | None:
        own = self.readers[-1] if self.readers and not self.readers[-1].is_zombie else None
        zombies = [reader for reader in self.readers if reader.is_zombie]
        if zombies and self.dice.random() < 0.3:
            return self.dice.choice(zombies)
        return own

    def _status(self, sender: Walsender, flush: Lsn) -> None:
        if flush < sender.flushed:
            raise Violation("I12", "a status went back", f"{sender.flushed} to {flush}")
        sender.flushed = flush
        slot = self.server.slot
        if slot is not None and flush > slot.confirmed:
            self._check_history()
            self.oracle.confirmed(flush)
            self.server.confirm(flush)

    def _check_history(self) -> None:
        """What the raw topic holds of one server is no reason to confirm anything to another, unless nothing is left of
        what the other one lacks: then nobody has it either."""
        newest = next((record.header.generation for record in reversed(self.topic.records) if record.is_valid), None)
        told = newest and newest.system_identifier == self.server.system and newest.timeline in self.server.tells
        if newest and not told and not self.oracle.is_unknowable:
            raise Violation("I8", "confirmed to another history", f"{newest.system_identifier}/{newest.timeline}")

    def _abandon_producers(self) -> None:
        """Those of readers that are gone: what they sent is under way without anybody who waits for it."""
        live = [reader.producer for reader in self.readers]
        for producer in self.producers:
            producer.is_abandoned = producer not in live
        if Fault.PRODUCE_LATE not in self.plan.faults:
            for producer in self.producers:
                while producer.is_abandoned and producer.under_way:
                    producer.land() if self.dice.random() < 0.5 else producer.lose()
        self.producers = [each for each in self.producers if each.under_way or not each.is_abandoned]

    def _bury_ghosts(self) -> None:
        for sender in list(self.ghosts):
            if self.is_healing or self.dice.random() < 0.2:
                self.ghosts.remove(sender)
                self._free(sender)

    def _free(self, sender: Walsender) -> None:
        """The server reads what had arrived before the end of the link."""
        if self.server.sender is sender:
            while sender.statuses:
                self._status(sender, flush_of(sender.statuses.popleft()))
            self.server.drop_link()
