"""Lines to files: data first, then the manifest that makes them count, both on disk before `commit` returns.

Invariant: what the manifest's cursor stands behind is in the files, once. Uncommitted lines are in memory only.
"""

import time
from collections.abc import Sequence
from dataclasses import replace

from tidegate.config.load import parse_options
from tidegate.config.pipeline import PipelineConfig
from tidegate.config.sinks import SinkConfig
from tidegate.contracts.cursor import Cursor
from tidegate.contracts.dead_letter import DeadLetter
from tidegate.contracts.frame import Frame
from tidegate.errors import TransientError
from tidegate.position import Position
from tidegate_processor.sinks.base import Capabilities, Receipt
from tidegate_processor.sinks.file.config import FileOptions
from tidegate_processor.sinks.file.encode import encoder, packed
from tidegate_processor.sinks.file.folder import Folder
from tidegate_processor.sinks.file.manifest import Manifest
from tidegate_processor.sinks.file.place import folder_of
from tidegate_processor.sinks.shared.dead_letter_topic import DeadLetterBox


class FileSink:
    capabilities = Capabilities(exactly_once=True, deletes=True, truncates=True, notices=True)

    def __init__(self, config: PipelineConfig, sink: SinkConfig) -> None:
        self._options = parse_options(sink, FileOptions)
        self._folder: Folder = folder_of(config, sink)
        self._lines = encoder(config.pipeline, sink)
        self._letters = DeadLetterBox(config, sink.name)
        self._manifest: Manifest | None = None

    def ping(self) -> None:
        self._folder.try_out()

    def open(self) -> Cursor | None:
        self._manifest = self._folder.take_over()
        return self._manifest.place

    def write(self, frame: Frame, after: Position) -> Receipt:
        return self._lines.write(frame, after)

    def write_dead_letters(self, letters: Sequence[DeadLetter]) -> None:
        self._letters.send(letters)

    def commit(self, cursor: Cursor) -> None:
        mine = self._manifest
        if mine is None:
            raise TransientError("the sink is closed", code="SINK_CLOSED")
        self._letters.flush()
        data = packed(self._lines.take(), self._options.compression)
        after = self._rotated(_grown(mine, len(data), cursor))
        self._folder.commit(mine, data, after)
        self._manifest = after

    def close(self) -> None:
        self._lines.drop()
        self._manifest = None
        self._letters.close()

    def _rotated(self, manifest: Manifest) -> Manifest:
        is_old = time.time() - manifest.begun >= self._options.rotate_after.total_seconds()
        if manifest.length == 0 or not (is_old or manifest.length >= self._options.rotate_bytes):
            return manifest
        return manifest.completed


def _grown(manifest: Manifest, more: int, cursor: Cursor) -> Manifest:
    """The file before has its name by now."""
    return replace(
        manifest,
        length=manifest.length + more,
        begun=manifest.begun or (int(time.time()) if more else 0),
        complete_number=0,
        complete_length=0,
        cursor=cursor.encode(),
    )
