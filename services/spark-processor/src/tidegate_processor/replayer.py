"""A replay from its request to its outcome: reads the letters, looks through the log behind them, delivers.

The look comes first, while the lane goes on, and may take its time. When the lane stands and is fenced, only what has
come since is looked at: so a lane stands for a moment, however far back a letter lies.
"""

import time
from collections.abc import Callable
from dataclasses import replace

import redis

from tidegate.checkpoint.redis_store import read_ack, read_lineage
from tidegate.clock import unix_microseconds
from tidegate.config.pipeline import PipelineConfig
from tidegate.contracts.dead_letter import DeadLetter
from tidegate.contracts.generation import Generation
from tidegate.contracts.request import Fate, LaneRequest
from tidegate.errors import ConfigError, StreamError
from tidegate.observability import logs
from tidegate.position import BEGINNING
from tidegate_processor.letters_topic import LettersTopic
from tidegate_processor.raw_log import KafkaRawLog
from tidegate_processor.redelivery import Redelivery, whole
from tidegate_processor.replay import Asked, Has, Letters, Watch, letters_in_order
from tidegate_processor.sinks.registry import make_whole_sink
from tidegate_processor.touches import touched_by_letter

_LOOK_SECONDS = 120.0
"""Other requests to the lane wait meanwhile. A million changes take about ten seconds."""


class Replayer:
    def __init__(
        self,
        config: PipelineConfig,
        sink: str,
        client: redis.Redis,
        request: LaneRequest,
        check: Callable[[], None],
    ) -> None:
        """`check` raises when the process is to end."""
        self.request = request
        self._config, self._sink, self._redis, self._check = config, config.lane(sink), client, check
        self._letters = Letters(request, sink)
        self._topic = LettersTopic(config)
        self._next_letter = request.letters_from
        self._log_id, self._next_frame = "", 0
        self._log = logs.get(f"lane.{sink}")

    def look(self) -> dict[str, Fate]:
        """By what the sink has acked: the lane goes on meanwhile."""
        self._read_letters()
        self._read_log(stop=None)
        generation = self._generation()
        ack = read_ack(self._redis, self._config.pipeline, generation.id, self._sink.name)
        position = ack.position if ack else BEGINNING
        return self._letters.fates(Has(generation.id, position, position), self._takes)

    def deliver(self, incarnation: int) -> dict[str, Fate]:
        sink = make_whole_sink(self._config, self._sink)
        try:
            cursor = sink.open()  # fences, so that what is read next is all there is
            if cursor is None:
                raise _no_cursor(self._sink.name)
            self._read_letters()
            self._read_log(stop=cursor.next_offset if cursor.rewound_from is None else None)
            fates = self._letters.fates(Has.of(cursor), self._takes)
            generation = self._generation()
            if generation.id != cursor.generation:
                raise _another_generation()
            going = letters_in_order(self._letters, fates)
            new = replace(cursor, incarnation=incarnation)
            delivery = Redelivery(sink, new, generation, self.request, self._sink.name, unix_microseconds)
            fates |= delivery.deliver(going)
        finally:
            sink.close()
        self._log.info("letters_replayed", request=self.request.id, asked=len(fates), tried=len(going))
        return fates

    def _read_letters(self) -> None:
        for offset, record in self._topic.read(self._next_letter, self._letters.wants, self._check):
            self._letters.take(record)
            self._next_letter = offset + 1

    def _read_log(self, stop: int | None) -> None:
        if self.request.is_forced and all(asked.letter.payload for asked in self._letters.open.values()):
            return
        with KafkaRawLog(self._config) as log:
            for asked in self._letters.open.values():
                if not asked.letter.payload:
                    self._fill(asked, log)
            if log.id != self._log_id:
                self._log_id, self._next_frame = log.id, self._first_frame(log)
            for asked in self._letters.open.values():
                if asked.is_covered is None:
                    asked.is_covered = self._is_covered(asked, log)
            watch, deadline = Watch(self._letters), time.monotonic() + _LOOK_SECONDS
            end = log.end if stop is None else min(stop, log.end)
            while self._next_frame < end:
                self._check()
                found = log.frame_at(self._next_frame)
                if found is None:
                    break
                offset, frame = found
                watch.see(frame)
                self._next_frame = offset + 1
                if time.monotonic() > deadline:
                    raise _too_far()

    def _fill(self, asked: Asked, log: KafkaRawLog) -> None:
        """A letter that was too large, or whose table is masked, says only where its change stands."""
        address = asked.letter.frame
        if address.topic_id != log.id or not log.beginning <= address.offset < log.end:
            return
        frame = log.whole_at(address.offset)
        filled = None if frame is None else whole(asked.letter, frame)
        if filled is not None:
            asked.letter, asked.touched = filled, touched_by_letter(filled)

    def _first_frame(self, log: KafkaRawLog) -> int:
        """Of a topic that was made again, nothing is known of what stood in the one before."""
        for asked in self._letters.open.values():
            asked.is_covered, asked.newer = None, None
            asked.newer_asked.clear()
        frames = [asked.letter.frame for asked in self._letters.open.values()]
        there = [frame.offset for frame in frames if frame.topic_id == log.id and frame.offset >= log.beginning]
        return min(there, default=log.end)

    def _is_covered(self, asked: Asked, log: KafkaRawLog) -> bool:
        frame = asked.letter.frame
        return frame.topic_id == log.id and frame.offset >= max(log.beginning, self._next_frame)

    def _takes(self, letter: DeadLetter) -> bool:
        schema, _, table = letter.channel.partition(".")
        return self._sink.takes(schema, table, letter.operation)

    def _generation(self) -> Generation:
        lineage = read_lineage(self._redis, self._config.pipeline)
        if lineage is None:
            raise ConfigError(
                "nobody has said in which generation the reader works",
                code="REPLAY_LINEAGE_UNKNOWN",
                remedy="Start the reader, which says so every second; then ask again.",
            )
        return lineage.generation


def _too_far() -> ConfigError:
    return ConfigError(
        "too much has been written since the oldest of these letters to look through it",
        code="REPLAY_TOO_FAR",
        remedy="Ask for fewer or newer letters at once; or force it, if nothing newer of their keys is of any matter; "
        "or rewind the lane, which delivers everything since.",
    )


def _no_cursor(sink: str) -> StreamError:
    return StreamError(
        f"the cursor of {sink} is not there",
        code="CURSOR_MISSING",
        remedy="The lane has delivered nothing yet, or its consumer group was reset; start it first.",
    )


def _another_generation() -> ConfigError:
    return ConfigError(
        "the reader works in another generation than the lane's cursor",
        code="REPLAY_GENERATION",
        remedy="Letters of an older slot can't be told from what is newer: give them up, or rewind the lane.",
    )
