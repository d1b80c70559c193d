"""Where a sink's files are, and its cursor, for who asks without loading what encodes events."""

from pathlib import Path

from tidegate.config.load import parse_options
from tidegate.config.pipeline import PipelineConfig
from tidegate.config.sinks import SinkConfig
from tidegate.contracts.cursor import Cursor
from tidegate_processor.sinks.file.config import SUFFIXES, FileOptions
from tidegate_processor.sinks.file.folder import Folder


def folder_of(config: PipelineConfig, sink: SinkConfig) -> Folder:
    options = parse_options(sink, FileOptions)
    return Folder(Path(options.path), f"{config.pipeline}.{sink.name}", SUFFIXES[options.compression])


def file_cursor(config: PipelineConfig, sink: SinkConfig) -> Cursor | None:
    manifest = folder_of(config, sink).look()
    return manifest.place if manifest is not None else None
