"""Frames to JSON events at the speed of the machine: the processor's way from a raw frame to records for a producer.

    encoder = FrameEncoder(EventSource("shop", "shopdb", system_id), route)
    encoded = encoder.encode(frame, after=position)
    for events in encoded.topics:
        for partition, run in events.runs(): …   # in commit order
            for key, value in run: …
    for rejected in encoded.rejected: …          # one dead letter each

Invariant: keys and values are byte for byte those of the reference, `tidegate_processor.encodings.json.JsonPlan`, and
so is what is refused and why. A DecodeError leaves nothing behind; a RecordError concerns its change alone.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tidegate.columns import events, layout
from tidegate.columns.envelopes import Envelope, EventSource, default_envelope
from tidegate.columns.frames import Changes, scan_frame
from tidegate.columns.identity import HASH_WORDS
from tidegate.columns.kernels import arrange
from tidegate.columns.layout import Refusal
from tidegate.columns.members import SHARED_BYTES
from tidegate.columns.notices import notice_of
from tidegate.columns.plans import Plans, Route
from tidegate.columns.refusals import RejectedChange, decode_error, record_error, rejected
from tidegate.columns.snapshots import snapshot_envelope, snapshot_route
from tidegate.columns.text import SLACK
from tidegate.contracts.frame import Frame, FrameKind
from tidegate.errors import RecordError
from tidegate.position import BEGINNING, Position

# Rows of common size become three times as large; what needs more asks for it.
_EXPECTED_GROWTH = 4
_SMALLEST_BUFFER = 1 << 14

_KEYLESS_PARTITION, _ANY_PARTITION = 0, -1
_FROM = np.array([which in (layout.KEY_AT, layout.VALUE_AT) for which in range(layout.EVENT_FIELDS)], np.int64)


class Written(NamedTuple):
    """What a kernel wrote for all topics of a frame, those of one topic one behind the other."""

    buffer: np.ndarray
    places: np.ndarray
    changes: Changes


class TopicEvents:
    """The events of one topic in commit order: places in `buffer`, as `layout` names them.

    A frame may have a thousand of these, so what a sink asks of each was added up while they were written.
    """

    __slots__ = ("_tally", "begin", "topic", "written")

    def __init__(self, topic: str, written: Written, begin: int, tally: Sequence[int]) -> None:
        """Those of `written` from the place `begin` on, as many as `tally` says."""
        self.topic, self.written, self.begin, self._tally = topic, written, begin, tally

    def __len__(self) -> int:
        return self._tally[layout.EVENTS]

    @property
    def value_bytes(self) -> int:
        return self._tally[layout.VALUE_BYTES]

    @property
    def largest_bytes(self) -> int:
        return self._tally[layout.LARGEST]

    @property
    def keyless_events(self) -> int:
        return self._tally[layout.KEYLESS]

    @property
    def buffer(self) -> np.ndarray:
        return self.written.buffer

    @property
    def places(self) -> np.ndarray:
        return self.written.places[self.begin : self.begin + len(self)]

    @property
    def changes(self) -> Changes:
        return self.written.changes

    def __iter__(self) -> Iterator[tuple[bytes | None, bytes]]:
        """Key and value of each."""
        places = self.places
        if not len(places):
            return
        # A slice of bytes is one object, one of a view is three: copying all of it first halves the time.
        begin, last = int(places[0, layout.KEY_AT]), places[-1].tolist()
        end = last[layout.VALUE_AT] + last[layout.VALUE_LENGTH]
        whole = self.buffer[begin:end].tobytes()
        keys, key_lengths, values, value_lengths, _ = (places - _FROM * begin).T.tolist()
        for key, key_length, value, value_length in zip(keys, key_lengths, values, value_lengths, strict=True):
            key_bytes = None if key_length < 0 else whole[key : key + key_length]
            yield key_bytes, whole[value : value + value_length]

    @property
    def sizes(self) -> np.ndarray:
        """Bytes of key and value of each."""
        return _sizes(self.places)

    @property
    def keyless(self) -> np.ndarray:
        """Which of them have none."""
        keyless: np.ndarray = self.places[:, layout.KEY_LENGTH] < 0
        return keyless

    def runs(self) -> "Iterator[tuple[int, TopicEvents]]":
        """Those that follow each other into one partition: 0 without a key, so that they keep their order; -1 where
        the key decides."""
        if self.keyless_events in (0, len(self)):
            if len(self):
                yield _KEYLESS_PARTITION if self.keyless_events else _ANY_PARTITION, self
            return
        keyless = self.keyless
        starts = [0, *(np.flatnonzero(keyless[1:] != keyless[:-1]) + 1).tolist(), len(self)]
        for start, end in pairwise(starts):
            run = self._of(self.places[start:end])
            yield _KEYLESS_PARTITION if keyless[start] else _ANY_PARTITION, run

    def where(self, fits: np.ndarray) -> "TopicEvents":
        return self._of(self.places[fits])

    @property
    def none(self) -> "TopicEvents":
        return self._of(self.places[:0])

    def _of(self, places: np.ndarray) -> "TopicEvents":
        return TopicEvents(self.topic, self.written._replace(places=places), 0, _tally(places))

    def refused(self, error: RecordError) -> Iterator[RejectedChange]:
        """The changes of all these events, because no topic takes them."""
        return (rejected(self.changes, row, error) for row in self.places[:, layout.CHANGE].tolist())


class EncodedFrame(NamedTuple):
    topics: tuple[TopicEvents, ...] = ()
    rejected: tuple[RejectedChange, ...] = ()
    newest_commit_time: int | None = None
    """Of the last transaction that has a part in the frame, in PostgreSQL's microseconds."""

    @property
    def events(self) -> int:
        return sum(map(len, self.topics))


class FrameEncoder:
    """For one lane; keeps the plans of the relations it has seen. Not for two threads at once."""

    def __init__(self, source: EventSource, route: Route, envelope: Envelope = default_envelope) -> None:
        self._source, self._route, self._envelope = source, route, envelope
        self._system_id = np.uint64(source.system_id)
        self._plans = self._wal_plans = Plans(source, route, envelope)
        self._row_plans = Plans(source, snapshot_route(route), snapshot_envelope(envelope))
        self._shared = np.zeros(SHARED_BYTES, np.uint8)
        self._words = np.zeros(HASH_WORDS, np.uint64)

    def encode(self, frame: Frame, after: Position = BEGINNING) -> EncodedFrame:
        """The events of a `wal` frame that is whole or re-joined, of what lies above `after` and has a route.

        A snapshot frame comes as `frame_of_rows` makes it.
        """
        if frame.header.kind is FrameKind.MARK:
            return self._notice(frame)
        self._plans = self._row_plans if frame.header.kind is FrameKind.SNAPSHOT else self._wal_plans
        section = self._plans.section(frame)
        changes = scan_frame(frame, after, section, section.topics)
        times, any_changes = changes.transactions, frame.header.changes > 0
        newest = int(times[-1, layout.COMMIT_TIME]) if len(times) and any_changes else None
        if not len(changes.rows):
            return EncodedFrame(newest_commit_time=newest)
        order, refusals = self._routed(changes)
        written, refused, tallies = self._run(changes, order)
        refusals += [rejected(changes, row, record_error(changes, row, code)) for row, code in refused]
        topics = self._by_topic(written, tallies)
        return EncodedFrame(tuple(topics), tuple(refusals), newest)

    def _notice(self, frame: Frame) -> EncodedFrame:
        """What a mark says, if it is for consumers: an event without a key, in the default envelope only."""
        if self._envelope is not default_envelope:
            return EncodedFrame()
        section = self._wal_plans.section(frame)
        notice = notice_of(frame, self._source, section)
        if notice is None:
            return EncodedFrame()
        try:
            topic = self._route(*notice.table, notice.operation)
        except RecordError as error:
            return EncodedFrame(rejected=(rejected(notice.changes, 0, error),))
        if topic is None:
            return EncodedFrame()
        places = np.array([[0, layout.NONE, 0, len(notice.value), 0]], np.int64)
        buffer = np.frombuffer(notice.value, np.uint8)
        return EncodedFrame((TopicEvents(topic, Written(buffer, places, notice.changes), 0, _tally(places)),))

    def _routed(self, changes: Changes) -> tuple[np.ndarray, list[RejectedChange]]:
        plans, topics = self._plans, changes.section.topics
        order = np.arange(len(changes.rows))
        if not changes.section.is_arranged:
            arrange(changes.rows, topics, np.zeros(len(plans.topics) + 1, np.int64), order)
        if not plans.refusals:
            return order, []
        of_row = topics[changes.rows[:, layout.RELATION], changes.rows[:, layout.OPERATION]]
        unroutable = np.isin(of_row, list(plans.refusals))
        refused = [
            rejected(changes, row, plans.refusals[int(of_row[row])]) for row in np.flatnonzero(unroutable).tolist()
        ]
        return order[~unroutable[order]], refused

    def _run(self, changes: Changes, order: np.ndarray) -> tuple[Written, list[tuple[int, int]], np.ndarray]:
        buffer = np.empty(_SMALLEST_BUFFER + _EXPECTED_GROWTH * len(changes.body), np.uint8)
        places = np.empty((len(order), layout.EVENT_FIELDS), np.int64)
        refused = np.empty((len(order), 2), np.int64)
        scratch = np.empty(changes.longest + SLACK, np.uint8)
        tallies = np.zeros((len(self._plans.topics), layout.TALLY_FIELDS), np.int64)
        state = np.zeros(events.STATE_FIELDS, np.int64)
        frame = changes.body, changes.rows, order, changes.transactions, changes.section.tables
        own = self._system_id, scratch, self._shared, self._words
        while True:
            room = events.encode(*frame, *own, buffer, places, refused, tallies, state)
            if room == 0:
                break
            larger = np.empty(2 * len(buffer) + room, np.uint8)
            written = state[events.TO]
            larger[:written] = buffer[:written]
            buffer = larger
        _, kept, _, unfit, failed = state.tolist()
        if failed:
            in_commit_order = np.sort(order)
            if not np.array_equal(order, in_commit_order):  # the first that fails there is the one to be named
                return self._run(changes, in_commit_order)
            raise decode_error(changes, int(order[state[events.NEXT]]), Refusal(failed))
        return Written(buffer, places[:kept], changes), refused[:unfit].tolist() if unfit else [], tallies

    def _by_topic(self, written: Written, tallies: np.ndarray) -> Iterator[TopicEvents]:
        at, names = 0, self._plans.topics
        topics = tallies[:, layout.EVENTS].nonzero()[0]
        for topic, tally in zip(topics.tolist(), tallies[topics].tolist(), strict=True):
            yield TopicEvents(names[topic], written, at, tally)
            at += tally[layout.EVENTS]


def _sizes(places: np.ndarray) -> np.ndarray:
    sizes: np.ndarray = places[:, layout.VALUE_LENGTH] + np.maximum(places[:, layout.KEY_LENGTH], 0)
    return sizes


def _tally(places: np.ndarray) -> tuple[int, int, int, int]:
    """As the kernel adds up, field by field."""
    keyless = np.count_nonzero(places[:, layout.KEY_LENGTH] < 0)
    return len(places), int(places[:, layout.VALUE_LENGTH].sum()), int(_sizes(places).max(initial=0)), int(keyless)
