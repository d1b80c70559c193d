"""Lines to the processor's standard output; cursor and dead letters behind them, in one Kafka transaction.

Invariant: the cursor is committed after all its lines were taken by whatever reads them, and lines are printed after
the brokers have taken the cursor into a transaction: an older holder is fenced there and prints nothing. Who dies in
between prints its lines again, so it is at least once.
"""

import os
import select
import time
from collections.abc import Sequence

from tidegate.config.pipeline import PipelineConfig
from tidegate.config.sinks import SinkConfig
from tidegate.contracts.cursor import Cursor
from tidegate.contracts.dead_letter import DeadLetter
from tidegate.contracts.frame import Frame
from tidegate.errors import TransientError
from tidegate.position import Position
from tidegate_processor.kafka_clients import librdkafka_settings
from tidegate_processor.sinks.base import Capabilities, Receipt
from tidegate_processor.sinks.shared.dead_letter_topic import DeadLetterTopic
from tidegate_processor.sinks.shared.lane_producer import BATCH_BYTES
from tidegate_processor.sinks.shared.transactional import TransactionalProducer
from tidegate_processor.sinks.stdout.config import STDOUT_VARIABLE
from tidegate_processor.sinks.stdout.encode import encoder
from tidegate_processor.target_topics import TargetTopics

_OWN = "/proc/self/fd/1"
# A lane that is silent for 15 s is taken for dead, and would print its lines again and again.
_BLOCKED_SECONDS = 10.0
# What a pipe takes at once (pipe(7): PIPE_BUF is atomic, the usual capacity is 16 times that).
_PIECE_BYTES = 64 * 1024


class StdoutSink:
    capabilities = Capabilities(exactly_once=False, deletes=True, truncates=True, notices=True)

    def __init__(self, config: PipelineConfig, sink: SinkConfig) -> None:
        self._lines = encoder(config.pipeline, sink)
        # The topic of dead letters is the only one that this sink makes.
        self._topics = TargetTopics(librdkafka_settings(config.kafka), partitions=1, batch_bytes=BATCH_BYTES)
        self._dead_letters = DeadLetterTopic(config.pipeline, self._topics)
        self._producer = TransactionalProducer(config, sink.name)
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
        self._dead_letters.send(letters, self._producer)

    def commit(self, cursor: Cursor) -> None:
        if self._output is None:
            raise TransientError("the sink is closed", code="SINK_CLOSED")
        self._producer.prepare(cursor)
        _print(self._output, memoryview(self._lines.take()))
        self._producer.finish()

    def close(self) -> None:
        self._lines.drop()
        self._producer.close()
        output, self._output = self._output, None
        if output is not None:
            os.close(output)


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


def _print(output: int, text: memoryview) -> None:
    patience = time.monotonic() + _BLOCKED_SECONDS
    while text:
        try:
            written = os.write(output, text[:_PIECE_BYTES])
        except BlockingIOError:
            left = patience - time.monotonic()
            if left <= 0:
                raise _blocked() from None
            select.select((), (output,), (), left)
        except OSError as error:
            raise TransientError(
                f"standard output takes no more ({type(error).__name__})",
                code="SINK_STDOUT_CLOSED",
                remedy="Whatever read it is gone, or its disk is full: mend it; lines come again from the cursor on.",
            ) from error
        else:
            text = text[written:]
            patience = time.monotonic() + _BLOCKED_SECONDS


def _blocked() -> TransientError:
    return TransientError(
        f"nobody has read standard output for {_BLOCKED_SECONDS:.0f} s",
        code="SINK_STDOUT_BLOCKED",
        remedy="Read faster, or write to a file: the lane comes again and repeats what it has not committed.",
    )
