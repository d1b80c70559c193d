"""A message that is larger than a frame comes in parts, one frame each; here they are one again."""

from collections.abc import Sequence
from dataclasses import replace

from tidegate.contracts.frame import Frame


def joined(parts: Sequence[Frame]) -> Frame:
    """All of one message, in order. The header is the last one's, for only with it the message is there."""
    header = replace(parts[-1].header, part=0, parts=0)
    return Frame(header, parts[0].schema, b"".join(part.body for part in parts))


def goes_on(parts: Sequence[Frame], frame: Frame) -> bool:
    """Whether it is the next part of the same message."""
    if not parts:
        return frame.header.part == 1
    last, header = parts[-1].header, frame.header
    return (header.epoch, header.seq, header.part) == (last.epoch, last.seq + 1, last.part + 1)
