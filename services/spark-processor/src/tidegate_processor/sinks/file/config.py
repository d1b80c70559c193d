"""Options of the `file` sink."""

from datetime import timedelta
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, Field

from tidegate.config.base import Duration, Size, size
from tidegate.config.problems import refuse
from tidegate_processor.sinks.shared.event_options import EventOptions


class FileCompression(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    ZSTD = "zstd"


SUFFIXES = {FileCompression.NONE: ".jsonl", FileCompression.GZIP: ".jsonl.gz", FileCompression.ZSTD: ".jsonl.zst"}


def _absolute(value: str) -> str:
    path = PurePosixPath(value)
    if not path.is_absolute() or ".." in path.parts or "\0" in value:
        raise refuse(
            code="SINK_FILE_PATH",
            reason="a folder is named from the root on, without ..",
            remedy="Write /var/lib/tidegate/events.",
        )
    return value


class FileOptions(EventOptions):
    path: Annotated[str, AfterValidator(_absolute)] = Field(
        min_length=2, max_length=4096, description="The folder of the files. It is made if it is not there."
    )
    rotate_bytes: Size = Field(
        size("64MiB"), ge=4096, le=2**40, description="A file is complete when it has reached this size."
    )
    rotate_after: Duration = Field(
        timedelta(hours=1),
        ge=timedelta(seconds=1),
        le=timedelta(days=30),
        description="A file is complete this long after its first event, once something is committed behind that.",
    )
    compression: FileCompression = Field(
        FileCompression.NONE, description="none, gzip or zstd; each commit is a frame of its own."
    )
