"""A sink in memory that obeys the contract, and can be told to fail where real ones do."""

from collections.abc import Callable, Sequence

from kit.reference import rejected, taken

from tidegate.config.sinks import SinkConfig, SinkType
from tidegate.contracts.ack import Ack
from tidegate.contracts.cursor import Cursor
from tidegate.contracts.dead_letter import DeadLetter
from tidegate.contracts.frame import Frame, FrameKind
from tidegate.contracts.lineage import Lineage
from tidegate.contracts.mark import Mark, decode_mark
from tidegate.errors import RecordError, TransientError
from tidegate.position import Position
from tidegate_processor.commit import Delivery
from tidegate_processor.decode import Change
from tidegate_processor.epoch_walk import Seen
from tidegate_processor.kafka_clients import RawTopicView
from tidegate_processor.sinks.base import Capabilities, Receipt, Sink
from tidegate_processor.snapshots import ReadBack, no_log

_EVERYTHING = SinkConfig(name="events", type=SinkType.KAFKA_TOPICS)
_FAR = RawTopicView("topic", 0, 1000)


class MemorySink:
    """What is in `delivered` was committed; a new incarnation is given the same `MemorySink` after `close`."""

    capabilities = Capabilities(exactly_once=True, deletes=True, truncates=True, notices=True, letters_too=True)

    def __init__(self, poison: Callable[[Change], bool] = lambda _: False, config: SinkConfig = _EVERYTHING) -> None:
        self.delivered: list[Change] = []
        self.marks: list[Mark] = []
        self.dead_letters: list[DeadLetter] = []
        self.cursor: Cursor | None = None
        self.commits = 0
        self.fail_next_commit = False
        self._poison = poison
        self._config = config
        self._written: list[Change] = []
        self._letters: list[DeadLetter] = []
        self._marks: list[Mark] = []

    def ping(self) -> None:
        return

    def open(self) -> Cursor | None:
        return self.cursor

    def write(self, frame: Frame, after: Position) -> Receipt:
        if frame.header.kind is FrameKind.MARK:
            self._marks.append(decode_mark(frame.body))
            return Receipt(1, len(frame.body))
        error = RecordError("this row is poison", code="POISON", remedy="Take it away.")
        changes = list(taken(frame, after, self._config.takes))
        refused = tuple(rejected(change, shape, error) for change, shape in changes if self._poison(change))
        good = [change for change, _ in changes if not self._poison(change)]
        self._written += good
        return Receipt(len(good), sum(len(change.raw) for change in good), refused)

    def write_dead_letters(self, letters: Sequence[DeadLetter]) -> None:
        self._letters += letters

    def commit(self, cursor: Cursor) -> None:
        if self.fail_next_commit:
            self.fail_next_commit = False
            self.close()
            raise TransientError("the sink is away", code="SINK_AWAY")
        self.delivered += self._written
        self.dead_letters += self._letters
        self.marks += self._marks
        self.cursor = cursor
        self.commits += 1
        self.close()

    def close(self) -> None:
        self._written, self._letters, self._marks = [], [], []


def delivery_into(
    sink: Sink,
    read_back: ReadBack = no_log,
    *,
    config: SinkConfig = _EVERYTHING,
    raw: RawTopicView = _FAR,
    acked: Callable[[str], Ack | None] = lambda _: None,
    lineage: Lineage | None = None,
    head: Callable[[], Seen | None] = lambda: None,
) -> Delivery:
    """Of a new lane, from a raw topic whose end is far away if nothing else is said."""
    return Delivery(
        "shop",
        config,
        sink,
        look=lambda: raw,
        acked=acked,
        lineage=lambda: lineage,
        config_epoch="c1",
        incarnation=1,
        read_back=read_back,
        head=head,
    )
