"""Whatever transactions, keepalives, acks and crashes: nothing is confirmed that a required sink does not have.

The reader's own framer and gate between a server that sends again from where it was told, and sinks that ack any frame
they have. A transaction that commits before the confirmed LSN is with every required sink; confirmed never falls in a
run, and never passes the lowest ack.
"""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tidegate.contracts.ack import Ack
from tidegate.contracts.frame import Frame, FrameKind, body_messages, decode_frame
from tidegate.contracts.generation import Generation
from tidegate.lsn import Lsn
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.encode import encode_message
from tidegate.pgoutput.messages import Begin, Commit, LogicalMessage, Message
from tidegate.pgoutput.wire import Keepalive, XLogData, encode_envelope
from tidegate.position import BEGINNING
from tidegate_reader.framer import Framer
from tidegate_reader.frames import EpochStamp, SealedFrame
from tidegate_reader.gate import Gate

SINKS = ("a", "b")
STEP = 1000
END = 40
START = Lsn(STEP - 1)


@dataclass
class Sink:
    """Has taken the first frames of the log; its newest ack may lag behind or be lost."""

    transactions: set[int] = field(default_factory=set)
    taken: int = 0
    ack: Ack | None = None


def commits(frame: Frame) -> set[int]:
    if frame.header.kind is not FrameKind.WAL:
        return set()
    messages = (decode_message(message) for _, message in body_messages(frame))
    return {each.commit_lsn // STEP for each in messages if isinstance(each, Commit)}


class Confirmed(RuleBasedStateMachine):
    @initialize(sizes=st.lists(st.integers(1, 4), min_size=3, max_size=12))
    def begin(self, sizes: list[int]) -> None:
        self.sizes = sizes
        self.log: list[SealedFrame] = []
        self.sinks = {name: Sink() for name in SINKS}
        self.slot = self.checkpoint = START
        self.epoch = 0
        self.clock = 0.0
        self._start()

    def _start(self) -> None:
        """As `resume` continues: behind the log's tail, from what the slot has."""
        self.epoch += 1
        tail = self.log[-1] if self.log else None
        position = tail.last if tail else BEGINNING
        safe = tail.safe_lsn if tail else START
        stamp = EpochStamp(Generation(7, 1, "d", "s", b"n" * 16), self.epoch, b"e" * 16, 0)
        self.framer = Framer(
            stamp,
            max_frame_bytes=5000,
            linger_seconds=0.0,
            position=position,
            safe_lsn=safe,
            skip_to=position,
            next_seq=1,
            wall_clock=lambda: 0,
        )
        self.gate = Gate(SINKS, confirmed=self.slot, durable=safe)
        self.flying: list[SealedFrame] = []
        self.to_send = self._stream()
        self.sent_lsn = self.slot
        self._acks()

    def _stream(self) -> list[Message]:
        """Every transaction whose COMMIT record starts at or after where the slot stands."""
        messages: list[Message] = []
        for number, size in enumerate(self.sizes, start=1):
            if number * STEP >= self.slot:
                commit = Lsn(number * STEP)
                change = LogicalMessage(True, Lsn(number * STEP - 5), "p", b"x" * 900)
                messages += [Begin(commit, 5, number), *[change] * size, Commit(commit, Lsn(commit + END), 5)]
        return messages

    @rule(count=st.integers(1, 8))
    def server_sends(self, count: int) -> None:
        for message in self.to_send[:count]:
            if isinstance(message, Commit):
                self.sent_lsn = message.end_lsn
            envelope = encode_envelope(XLogData(Lsn(9), Lsn(9), 0, encode_message(message)))
            self.flying += self.framer.feed([envelope], self.clock)
        del self.to_send[:count]

    @rule(ahead=st.integers(0, STEP - END - 1), backwards=st.booleans())
    def server_says_how_far_it_is(self, ahead: int, backwards: bool) -> None:
        """Outside a transaction never beyond the next commit record; inside one it already names an LSN behind it."""
        following = self.to_send[0] if self.to_send else None
        lsn = self.sent_lsn + ahead
        if isinstance(following, Begin):
            lsn = min(lsn, following.commit_lsn)
        elif following is not None:
            lsn += STEP
        if backwards:
            lsn = self.slot - min(ahead, self.slot)
        self.flying += self.framer.feed([encode_envelope(Keepalive(Lsn(lsn), 0, False))], self.clock)

    @rule()
    def link_is_empty(self) -> None:
        self.clock += 2.0
        self.flying += self.framer.empty_link(self.clock)

    @rule(count=st.integers(1, 5))
    def broker_acknowledges(self, count: int) -> None:
        for frame in self.flying[:count]:
            self.log.append(frame)
            self.gate.produced(frame.safe_lsn)
        del self.flying[:count]
        self._confirm()

    @rule(name=st.sampled_from(SINKS), count=st.integers(1, 5), says=st.booleans())
    def sink_takes_frames(self, name: str, count: int, says: bool) -> None:
        sink = self.sinks[name]
        for sealed in self.log[sink.taken : sink.taken + count]:
            sink.transactions |= commits(decode_frame(sealed.data))
            sink.taken += 1
        if says:
            self._say(name, sink.taken)
        self._acks()

    @rule()
    def everything_flows(self) -> None:
        """Without it a run of random steps seldom gets far enough for anything to be confirmed."""
        self.link_is_empty()
        self.broker_acknowledges(len(self.flying))
        for name in SINKS:
            self.sink_takes_frames(name, len(self.log), says=True)

    @rule(name=st.sampled_from(SINKS), kept=st.integers(0, 5))
    def redis_goes_back(self, name: str, kept: int) -> None:
        """To an ack that was good once, or to none."""
        self.sinks[name].ack = None
        self._say(name, min(kept, self.sinks[name].taken))
        self._acks()

    @rule(landed=st.integers(0, 5))
    def reader_dies(self, landed: int) -> None:
        """Some frames that were under way have landed, in order, and nobody was told."""
        self.log += self.flying[:landed]
        self._start()

    @rule()
    def server_writes_a_checkpoint(self) -> None:
        self.checkpoint = self.slot

    @rule(landed=st.integers(0, 5))
    def server_dies(self, landed: int) -> None:
        self.slot = self.checkpoint
        self.reader_dies(landed)

    def _say(self, name: str, taken: int) -> None:
        if taken:
            last = self.log[taken - 1]
            self.sinks[name].ack = Ack(name, "g", self.epoch, "t", taken - 1, last.last, last.safe_lsn, 0)

    def _acks(self) -> None:
        self.gate.acked({name: sink.ack for name, sink in self.sinks.items() if sink.ack is not None})
        self._confirm()

    def _confirm(self) -> None:
        before, self.slot = self.slot, Lsn(max(self.slot, self.gate.confirmed))
        assert self.gate.confirmed >= before, "what was confirmed fell back"

    @invariant()
    def every_required_sink_has_what_is_confirmed(self) -> None:
        forgotten = {number for number in range(1, len(self.sizes) + 1) if number * STEP < self.slot}
        assert all(forgotten <= sink.transactions for sink in self.sinks.values())

    @invariant()
    def confirmed_is_not_above_what_this_log_holds(self) -> None:
        assert self.slot <= max([START, *(frame.safe_lsn for frame in self.log)])


TestConfirmed = Confirmed.TestCase
TestConfirmed.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
