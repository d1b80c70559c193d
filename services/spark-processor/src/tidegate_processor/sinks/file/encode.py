"""Frames to lines, and lines to what stands in a file. Pure: touches no file."""

import gzip

import pyarrow as pa

from tidegate.config.sinks import SinkConfig
from tidegate_processor.sinks.file.config import FileCompression
from tidegate_processor.sinks.shared.json_lines import JsonLines

# The same lines are the same bytes.
_NO_TIME = 0


def encoder(pipeline: str, sink: SinkConfig) -> JsonLines:
    return JsonLines(pipeline, sink)


def packed(lines: bytes, compression: FileCompression) -> bytes:
    """Whole by itself, so that a file may end behind any commit. Nothing stays nothing."""
    if not lines:
        return b""
    match compression:
        case FileCompression.NONE:
            return lines
        case FileCompression.GZIP:
            return gzip.compress(lines, mtime=_NO_TIME)
        case FileCompression.ZSTD:
            return bytes(pa.Codec("zstd").compress(lines, asbytes=True))
