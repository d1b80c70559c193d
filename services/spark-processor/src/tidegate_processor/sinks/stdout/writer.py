"""Lines to the processor's standard output; cursor and dead letters behind them, in one Kafka transaction.

    commit   cursor into a transaction → lines, the transaction begun anew each second → dead letters → committed

Invariant: the cursor is committed after all its lines were taken by whatever reads them, and lines are printed while
the brokers have the cursor in a transaction: an older holder is fenced there, and prints nothing, or nothing more. Who
dies in between prints its lines again, so it is at least once. However long a reader takes, no transaction grows old:
brokers would abort it, and one that they let grow old holds back the next lane, which waits for the cursor.
"""

import os
import select
import time
from collections.abc import Callable, Sequence

from tidegate.config.pipeline import PipelineConfig
from tidegate.config.sinks import SinkConfig
from tidegate.contracts.cursor import Cursor
from tidegate.contracts.dead_letter import DeadLetter
from tidegate.contracts.frame import Frame
from tidegate.errors import TransientError
from tidegate.position import Position
from tidegate_processor.kafka_clients import librdkafka_settings
from tidegate_processor.kafka_refusals import mapped
from tidegate_processor.sinks.base import Capabilities, Receipt
from tidegate_processor.sinks.shared.dead_letter_topic import DeadLetterTopic
from tidegate_processor.sinks.shared.lane_producer import BATCH_BYTES, CALL_SECONDS, until_it_is_done
from tidegate_processor.sinks.shared.transactional import TransactionalProducer
from tidegate_processor.sinks.stdout.config import STDOUT_VARIABLE
from tidegate_processor.sinks.stdout.encode import encoder
from tidegate_processor.speaking import Paced, Speak, nobody_listens
from tidegate_processor.target_topics import TargetTopics

_OWN = "/proc/self/fd/1"
# A lane that is silent for 15 s is taken for dead, and would print its lines again and again.
_BLOCKED_SECONDS = 10.0
# What a pipe takes at once (pipe(7): PIPE_BUF is atomic, the usual capacity is 16 times that).
_PIECE_BYTES = 64 * 1024
# Nobody reads: how often it is looked whether the transaction has to be begun anew.
_LOOK_SECONDS = 0.5


class StdoutSink:
    capabilities = Capabilities(exactly_once=False, deletes=True, truncates=True, notices=True)

    def __init__(self, config: PipelineConfig, sink: SinkConfig, speak: Speak = nobody_listens) -> None:
        self._speak = speak
        self._lines = encoder(config.pipeline, sink)
        # The topic of dead letters is the only one that this sink makes.
        self._topics = TargetTopics(librdkafka_settings(config.kafka), partitions=1, batch_bytes=BATCH_BYTES)
        self._dead_letters = DeadLetterTopic(config.pipeline, self._topics)
        self._letters: list[DeadLetter] = []
        self._producer = _RenewedProducer(config, sink.name)
        self._path = os.environ.get(STDOUT_VARIABLE, _OWN)
        self._output: int | None = None

    def ping(self) -> None:
        self._topics.ping()
        os.close(_opened(self._path))

    def open(self) -> Cursor | None:
        cursor = self._producer.open()
        self._output = _opened(self._path)
        return cursor

    def write(self, frame: Frame, after: Position) -> Receipt:
        return self._lines.write(frame, after)

    def write_dead_letters(self, letters: Sequence[DeadLetter]) -> None:
        """They wait for the lines: a transaction that is begun anew would lose them."""
        self._dead_letters.make(self._producer)
        self._letters += letters

    def commit(self, cursor: Cursor) -> None:
        if self._output is None:
            raise TransientError("the sink is closed", code="SINK_CLOSED")
        self._producer.prepare(cursor)
        renew = Paced(lambda: self._producer.renew(cursor))
        _print(self._output, memoryview(self._lines.take()), renew, self._speak)
        self._dead_letters.send(self._letters, self._producer)
        self._producer.finish()
        self._letters.clear()

    def close(self) -> None:
        self._lines.drop()
        self._letters.clear()
        self._producer.close()
        output, self._output = self._output, None
        if output is not None:
            os.close(output)


class _RenewedProducer(TransactionalProducer):
    def renew(self, cursor: Cursor) -> None:
        """Its transaction, in which there is nothing yet but this cursor."""
        producer, _ = self._opened()
        with mapped("begin its transaction anew"):
            until_it_is_done(lambda: producer.abort_transaction(CALL_SECONDS))
        self._in_transaction = False
        self.prepare(cursor)


def _opened(path: str) -> int:
    """Of its own, so that it does not block where others share it, and behind what a file holds already."""
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise TransientError(
            f"standard output can not be written to ({type(error).__name__})",
            code="SINK_STDOUT_CLOSED",
            remedy="Let it lead to a terminal, a pipe somebody reads or a file; a socket can't be used.",
        ) from error


def _print(output: int, text: memoryview, renew: Callable[[], None], speak: Speak) -> None:
    """`speak` only where something was taken: while nobody reads, the lane stands."""
    patience = time.monotonic() + _BLOCKED_SECONDS
    while text:
        renew()
        try:
            written = os.write(output, text[:_PIECE_BYTES])
        except BlockingIOError:
            left = patience - time.monotonic()
            if left <= 0:
                raise _blocked() from None
            select.select((), (output,), (), min(left, _LOOK_SECONDS))
        except OSError as error:
            raise TransientError(
                f"standard output takes no more ({type(error).__name__})",
                code="SINK_STDOUT_CLOSED",
                remedy="Whatever read it is gone, or its disk is full: mend it; lines come again from the cursor on.",
            ) from error
        else:
            text = text[written:]
            patience = time.monotonic() + _BLOCKED_SECONDS
            speak()


def _blocked() -> TransientError:
    return TransientError(
        f"nobody has read standard output for {_BLOCKED_SECONDS:.0f} s",
        code="SINK_STDOUT_BLOCKED",
        remedy="Read faster, or write to a file: the lane comes again and repeats what it has not committed.",
    )
