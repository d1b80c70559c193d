"""Frames to change batches: the one way of every sink that delivers rows rather than events. Pure: imports no client.

Invariant: a sink that delivers rows gets them here and nowhere else, in the order in which they were committed.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tidegate.columns.batches import ChangeBatch, FrameDecoder
from tidegate.columns.envelopes import LETTERS, EventSource
from tidegate.config.sinks import SinkConfig
from tidegate.contracts.frame import Frame
from tidegate.contracts.generation import Generation
from tidegate.position import Position

_OP = 0


@dataclass(frozen=True, slots=True)
class Taken:
    """Of a batch, the rows that the sink's routes take, in commit order."""

    batch: ChangeBatch
    rows: np.ndarray


class ChangeBatches:
    def __init__(self, pipeline: str, sink: SinkConfig) -> None:
        self._pipeline, self._sink = pipeline, sink
        self._generation: Generation | None = None
        self._decoder: FrameDecoder | None = None

    def of(self, frame: Frame, after: Position) -> Iterator[Taken]:
        generation = frame.header.generation
        if self._decoder is None or generation != self._generation:
            source = EventSource(self._pipeline, generation.database, generation.system_identifier)
            self._decoder, self._generation = FrameDecoder(source), generation
        for batch in self._decoder.decode(frame, after):
            relation = batch.shape.relation
            wanted = [ord(LETTERS[each]) for each in LETTERS if self._sink.takes(relation.schema, relation.name, each)]
            if wanted:
                yield Taken(batch, np.flatnonzero(np.isin(operations(batch), wanted)))


def operations(batch: ChangeBatch) -> np.ndarray:
    found: np.ndarray = batch.rows.column(_OP).to_numpy()
    return found
