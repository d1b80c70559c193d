"""Logical messages as columns: what `pg_logical_emit_message` said in a transaction, beside the rows of `batches`.

Invariant: a message has the position and the id that it has as an event. They are few, so the reference decodes them.
"""

from collections.abc import Iterator
from typing import Any, Final
from uuid import UUID

import pyarrow as pa

from tidegate.columns import layout
from tidegate.columns.frames import Changes
from tidegate.events import event_id
from tidegate.lsn import Lsn
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.messages import LogicalMessage

SCHEMA: Final = pa.schema(
    [
        pa.field("id", pa.binary(16)),
        pa.field("commit_lsn", pa.uint64()),
        pa.field("ordinal", pa.uint64()),
        pa.field("lsn", pa.uint64()),
        pa.field("xid", pa.uint32()),
        pa.field("commit_time", pa.int64()),
        pa.field("prefix", pa.large_string()),
        pa.field("content", pa.large_binary()),
    ]
)


def message_rows(changes: Changes, system_id: int) -> pa.RecordBatch:
    """`changes`: of `scan_frame(…, messages=True)`, where no relation is wanted."""
    return pa.RecordBatch.from_pylist(list(_rows(changes, system_id)), schema=SCHEMA)


def _rows(changes: Changes, system_id: int) -> Iterator[dict[str, Any]]:
    for fields in changes.rows.tolist():
        at, length, ordinal = fields[layout.MESSAGE], fields[layout.LENGTH], fields[layout.ORDINAL] % 2**64
        message = decode_message(changes.body[at : at + length].tobytes())
        if isinstance(message, LogicalMessage):
            xid, lsn, time = changes.transactions[fields[layout.TRANSACTION]].tolist()
            commit_lsn = Lsn(lsn % 2**64)
            identity = event_id(system_id=system_id, commit_lsn=commit_lsn, xid=xid, commit_time=time, ordinal=ordinal)
            yield {
                "id": UUID(identity).bytes,
                "commit_lsn": commit_lsn,
                "ordinal": ordinal,
                "lsn": message.lsn,
                "xid": xid,
                "commit_time": time,
                "prefix": message.prefix,
                "content": message.content,
            }
