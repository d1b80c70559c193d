"""Frames with relations, transactions and values of every kind, made by hypothesis; most are valid, few are kind."""

from collections.abc import Sequence

from hypothesis import strategies as st

from tidegate.contracts.frame import (
    BODY_ENTRY,
    Frame,
    FrameHeader,
    FrameKind,
    OpenTransaction,
    SchemaEntry,
    SchemaRole,
)
from tidegate.contracts.generation import Generation
from tidegate.lsn import Lsn
from tidegate.pgoutput import encode_message
from tidegate.pgoutput.messages import (
    UNCHANGED,
    Begin,
    Binary,
    Column,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    OldKind,
    Origin,
    Relation,
    ReplicaIdentity,
    Row,
    Truncate,
    Type,
    Update,
)
from tidegate.position import BEGINNING

SYSTEM_ID = 0xF412345678901234
GENERATION = Generation(SYSTEM_ID, 1, 'shop"db', "slot", bytes(16))
DOMAIN, FOREIGN = 70_001, 70_002
TYPES = (Type(DOMAIN, "", "numeric"), Type(FOREIGN, "public", "mood"))

SCALARS = (16, 20, 21, 23, 26, 700, 701, 1700, 1042, 17, 114, 3802, 1114, 1184, 25, 1082, 2950, DOMAIN, FOREIGN, 99_999)
ARRAYS = (1000, 1001, 1005, 1007, 1009, 1014, 1016, 1020, 1022, 1115, 1185, 1231, 199, 3807)

# What PostgreSQL sends for some type, and what nobody would send; every column meets all of it.
TEXTS = [
    b"t", b"f", b"", b"0", b"-0", b"-7", b"42", b"12345678", b"123456789", b"9223372036854775807", b"-", b"1 ",
    b"+1", b"1.5", b"1.50", b"-1.00", b"100", b".5", b"5.", b"1e300", b"1e+300", b"1E-7", b"1e", b"NaN",
    b"Infinity", b"..00", b"\\x", b"\\x00ff10", b"\\xABcd", b"\\x0", b"\\xzz", b"\\", b"abc  ", b"  ",
    b'{"a": [1, null]}', b'{\n "b":1}', b"2026-11-18 15:04:05.678901", b"2026-11-18 15:04:05+00",
    b"2026-11-18 15:04:05+02", b"infinity", b"0044-03-15 BC", b"0044-03-15 12:00:00 BC",
    b"12026-11-18 00:00:00", b"0123456789 +00", b"0123456789 ", b"0123456789 x+00", b"{}", b"{1,NULL,-3}",
    b"{{1,2},{3,4}}", b"[0:1]={1,2}",
    b"{{},{}}", b'{"a",{}}', b'{"a,b","NULL",NULL,"","q\\"s\\\\"}', b"{,}", b"{1,}", b"{", b"}",
    b"{}}", b"{{}", b'{"a}', b'{"a\\"}', b"{a\\b}", b"{{1},{2}}x", b'},"a",{', b"{(1,1),(0,0);(2,2)}", b"{;}",
    b'{"\\\\x00ff"}', b'{"\\\\x0"}', b'{"\\\\x0"', b'{"2026-11-18 15:04:05+00",x}', b"{t,f,\x01}", b'{"\xff"}',
    b"{\xff,}", "Grüße ☃ 😀".encode(), b'say "hi"\\', bytes(range(1, 32)), b"\x7f\x80", b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80", b"plain ascii text of some length, " * 5, b"aaaaaaa\xc3\xa9", b"aaaaaaaa\xc3",
    b'aaaaaaa"', b"\xe2\x98", b"\xc0\x80",
]  # fmt: skip
texts = st.sampled_from(TEXTS) | st.binary(max_size=20) | st.text(max_size=20).map(str.encode)
harmless = st.sampled_from([text for text in TEXTS if text.isascii() and b"\\x" not in text])
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
lsns = st.integers(0, 2**64 - 1).map(Lsn)
times = st.integers(-(10**15), 10**15) | st.integers(-(2**63), 2**63 - 1)


def _relations(identity: int) -> st.SearchStrategy[Relation]:
    column = st.builds(Column, st.integers(0, 1), names, st.sampled_from(SCALARS + ARRAYS), st.sampled_from((-1, 5)))
    columns = st.lists(column, max_size=8).map(tuple)
    return st.builds(Relation, st.just(identity), names, names, st.just(ReplicaIdentity.DEFAULT), columns)


@st.composite
def _rows(draw: st.DrawFn, relation: Relation) -> Row:
    holes = draw(st.sampled_from(((), (None,), (None, UNCHANGED), (None, UNCHANGED, Binary(b"\0")))))
    value = draw(st.sampled_from((harmless, texts)))
    width = len(relation.columns) + (draw(st.integers(0, 60)) == 0)
    kinds = st.one_of(value, value, st.sampled_from(holes)) if holes else value
    return tuple(draw(kinds) for _ in range(width))


@st.composite
def _changes(draw: st.DrawFn, relations: Sequence[Relation]) -> Message:
    relation = draw(st.sampled_from(relations))
    kind = draw(st.sampled_from("IIIUUUUDDTMOX"))
    if kind == "I":
        return Insert(relation.relation_id, draw(_rows(relation)))
    if kind == "U":
        old_kind = draw(st.none() | st.sampled_from(OldKind))
        old = None if old_kind is None else draw(_rows(relation))
        return Update(relation.relation_id, old_kind, old, draw(_rows(relation)))
    if kind == "D":
        return Delete(relation.relation_id, draw(st.sampled_from(OldKind)), draw(_rows(relation)))
    if kind == "T":
        listed = st.lists(st.sampled_from([each.relation_id for each in relations]), max_size=4)
        return Truncate(tuple(draw(listed)), draw(st.integers(0, 3)))
    if kind == "M":
        return LogicalMessage(1, Lsn(7), draw(names), b"content")
    return Origin(Lsn(3), "elsewhere") if kind == "O" else Insert(relation.relation_id, (b"1",) * len(relation.columns))


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    relations = [draw(_relations(identity)) for identity in draw(st.sampled_from(((5,), (900, 5, 2**32 - 1))))]
    opened = draw(st.none() | st.builds(OpenTransaction, st.integers(0, 2**32 - 1), lsns, times, st.integers(0, 2**62)))
    messages: list[Message] = draw(st.lists(_changes(relations), max_size=3)) if opened else []
    for _ in range(draw(st.integers(0, 3))):
        begin = draw(st.builds(Begin, lsns, times, st.integers(0, 2**32 - 1)))
        messages += [begin, *draw(st.lists(_changes(relations), max_size=4))]
        if draw(st.integers(0, 9)):
            messages.append(Commit(begin.commit_lsn, begin.commit_lsn, begin.commit_time))
    return frame_of(relations, messages, opened)


def frame_of(
    relations: Sequence[Relation], messages: Sequence[Message], opened: OpenTransaction | None = None
) -> Frame:
    raw = [encode_message(message) for message in messages]
    body = b"".join(BODY_ENTRY.pack(len(message), 2**64 - 1 - at) + message for at, message in enumerate(raw))
    schema = tuple(SchemaEntry(SchemaRole.CURRENT, encode_message(message)) for message in (*TYPES, *relations))
    header = FrameHeader(
        kind=FrameKind.WAL,
        generation=GENERATION,
        epoch=1,
        epoch_nonce=bytes(16),
        epoch_offset=0,
        seq=1,
        first=BEGINNING,
        last=BEGINNING,
        safe_lsn=Lsn(0),
        created=0,
        messages=len(raw),
        changes=len(raw),
        open_transaction=opened,
    )
    return Frame(header, schema, body)
