"""A process that holds a sink and is killed: `python -m kit.sink_holder CONFIG FRAMES written|committed`."""

import sys
from pathlib import Path

from kit.sink_rigs import SINK, cursor_behind

from tidegate.config.pipeline import PipelineConfig
from tidegate.contracts.frame import FrameKind, decode_frame
from tidegate.position import BEGINNING
from tidegate_processor.sinks.registry import make_sink


def main(config_file: str, frames_file: str, until: str) -> None:
    config = PipelineConfig.model_validate_json(Path(config_file).read_text())
    sink = make_sink(config, config.sink(SINK))
    cursor = sink.open()
    position = cursor.position if cursor else BEGINNING
    data = Path(frames_file).read_bytes()
    frame = None
    while data:
        size = int.from_bytes(data[:4], "big")
        frame, data = decode_frame(data[4 : 4 + size]), data[4 + size :]
        if frame.header.kind is FrameKind.WAL:
            sink.write(frame, position)
            position = max(position, frame.header.last)
    assert frame is not None
    if until == "committed":
        sink.commit(cursor_behind(frame))
    print(until, flush=True)
    sys.stdin.read()  # it is killed here


if __name__ == "__main__":
    main(*sys.argv[1:])
