"""What is asked of the server when the stream starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.contracts.epoch import StreamOptions
from tidegate.lsn import Lsn, format_lsn
from tidegate.quoting import identifier, literal

if TYPE_CHECKING:
    from tidegate.config.pipeline import PipelineConfig


def stream_options(config: PipelineConfig, server_version: int) -> StreamOptions:
    # What a server of this version knows (pgoutput.h, LOGICALREP_PROTO_MAX_VERSION_NUM); nothing is streamed anyway.
    newest = {10: 1, 11: 1, 12: 1, 13: 1, 14: 2, 15: 3}.get(server_version // 10_000, 4)
    return StreamOptions(tuple(config.publication_names), newest, messages=server_version >= 140_000)


def start_command(config: PipelineConfig, options: StreamOptions, started: Lsn) -> str:
    names = literal(",".join(identifier(name) for name in options.publications))
    messages = ", messages 'true'" if options.messages else ""
    return (
        f"START_REPLICATION SLOT {identifier(config.source.slot.name)} LOGICAL {format_lsn(started)}"
        f" (proto_version '{options.protocol}', publication_names {names}{messages})"
    )
