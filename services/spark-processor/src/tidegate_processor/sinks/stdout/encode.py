"""Frames to lines. Pure: imports no client."""

from tidegate.config.sinks import SinkConfig
from tidegate_processor.sinks.shared.json_lines import JsonLines


def encoder(pipeline: str, sink: SinkConfig) -> JsonLines:
    return JsonLines(pipeline, sink)
