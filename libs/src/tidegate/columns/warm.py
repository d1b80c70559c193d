"""Every kernel compiled, or read from the cache, before a lane says that it is ready.

Invariant: afterwards no frame, whatever is in it, waits for the compiler: a kernel has one signature and keeps it.
"""

import pyarrow as pa

from tidegate.columns.batches import FrameDecoder
from tidegate.columns.cast_nested import cast_text
from tidegate.columns.casts import EXTENSIONS, cast_of
from tidegate.columns.copy_rows import insert_entries
from tidegate.columns.envelopes import EventSource
from tidegate.columns.json_encode import FrameEncoder
from tidegate.columns.owners import FrameOwners
from tidegate.columns.rewrites import FrameRewriter
from tidegate.columns.sampled import SampledScan
from tidegate.columns.typed import Caster
from tidegate.columns.windows import Window
from tidegate.contracts.frame import BODY_ENTRY, Frame, FrameHeader, FrameKind, SchemaEntry, SchemaRole
from tidegate.contracts.generation import Generation
from tidegate.lsn import ZERO, Lsn
from tidegate.observability.trace_context import Sampler
from tidegate.pgoutput import encode_message
from tidegate.pgoutput.messages import Begin, Column, Insert, Relation, ReplicaIdentity
from tidegate.pgoutput.rewrite import Writer, Written
from tidegate.position import BEGINNING

_INT4, _INT4_ARRAY = 23, 1007
_RELATION = 1


def warm() -> None:
    """About a second with a warm cache (`compiled.py` says where it is), half a minute without."""
    source = EventSource("", "", 0)
    frame = _frame()
    FrameEncoder(source, lambda *_: "").encode(frame)
    for batch in FrameDecoder(source).decode(frame):
        Caster().cast(batch)
    owners = FrameOwners(2)
    owned = owners.of(frame, BEGINNING)
    owners.only(frame, owned, owned.of(owned.owners[0] ^ 1))
    FrameRewriter(_masked, lambda *_: True).rewrite(frame)
    SampledScan(Sampler(1.0)).of(frame, BEGINNING)
    window = Window(_RELATION, BEGINNING)
    window.note(frame)
    window.judge(frame, b"1\n")
    window.make_room(1 << 20)
    insert_entries(b"1\n", 1, _RELATION, ZERO)
    for cast in (cast_of(_INT4_ARRAY, -1, {}), EXTENSIONS["hstore"]):
        cast_text(pa.array([b"{1}"], pa.large_binary()), cast)


def _masked(relation: Relation, *_: object) -> list[Written]:
    return [Written(column, Writer.HASH) for column in relation.columns]


def _frame() -> Frame:
    # Of two relations: what is of one alone needs no order.
    ids, columns = (_RELATION, _RELATION + 1), (Column(1, "id", _INT4, -1),)
    relations = [Relation(each, "", "", ReplicaIdentity.DEFAULT, columns) for each in ids]
    messages = [encode_message(Begin(Lsn(1), 0, 1)), *(encode_message(Insert(each, (b"1",))) for each in ids)]
    body = b"".join(BODY_ENTRY.pack(len(message), 0) + message for message in messages)
    header = FrameHeader(
        kind=FrameKind.WAL,
        generation=Generation(0, 1, "", "", bytes(16)),
        epoch=0,
        epoch_nonce=bytes(16),
        epoch_offset=0,
        seq=0,
        first=BEGINNING,
        last=BEGINNING,
        safe_lsn=ZERO,
        created=0,
        messages=len(messages),
        changes=len(ids),
    )
    schema = tuple(SchemaEntry(SchemaRole.CURRENT, encode_message(relation)) for relation in relations)
    return Frame(header, schema, body)
