"""Any value of any contract, for properties."""

from collections.abc import Sequence

from hypothesis import strategies as st

from tidegate.contracts.ack import Ack
from tidegate.contracts.branch import Branch
from tidegate.contracts.control import Command, LaneControl
from tidegate.contracts.cursor import Cursor
from tidegate.contracts.dead_letter import DeadLetter, FrameAddress
from tidegate.contracts.epoch import EpochMode, EpochRecord, PreviousEpoch, StreamOptions
from tidegate.contracts.frame import Frame, FrameHeader, FrameKind, OpenTransaction, SchemaEntry, SchemaRole
from tidegate.contracts.gap import Gap, GapReason
from tidegate.contracts.generation import Generation
from tidegate.contracts.mark import Mark, MarkKind
from tidegate.contracts.refused_shape import RefusedShape
from tidegate.contracts.status import Failure, LaneStatus, ReaderStatus, State
from tidegate.lsn import MAX_LSN, Lsn
from tidegate.pgoutput.shape_changes import ShapeChangeKind
from tidegate.position import MAX_ORDINAL, Position

LONG = st.integers(0, 2**64 - 1)
SIGNED = st.integers(-(2**63), 2**63 - 1)
SHORT = st.integers(0, 2**32 - 1)
# Text as PostgreSQL and we can hold it: no NUL, no half of a surrogate pair.
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
HEX = st.binary(min_size=16, max_size=16).map(bytes.hex)
LSN = st.integers(0, MAX_LSN).map(Lsn)
POSITION = st.builds(Position, LSN, st.integers(0, MAX_ORDINAL))
NONCE = st.binary(min_size=16, max_size=16)
GENERATION = st.builds(Generation, LONG, SHORT, TEXT, TEXT, NONCE)

OPEN_TRANSACTION = st.builds(OpenTransaction, SHORT, LSN, SIGNED, st.integers(0, MAX_ORDINAL))
PARTS = st.tuples(SHORT, SHORT).map(sorted).map(lambda pair: pair if pair[0] else [0, 0])
SCHEMA = st.builds(SchemaEntry, st.sampled_from(SchemaRole), st.binary(max_size=40))


@st.composite
def headers(draw: st.DrawFn) -> FrameHeader:
    part, parts = draw(PARTS)
    return FrameHeader(
        kind=draw(st.sampled_from(FrameKind)),
        generation=draw(GENERATION),
        epoch=draw(LONG),
        epoch_nonce=draw(NONCE),
        epoch_offset=draw(LONG),
        seq=draw(LONG),
        first=draw(POSITION),
        last=draw(POSITION),
        safe_lsn=draw(LSN),
        created=draw(SIGNED),
        messages=draw(SHORT),
        changes=draw(SHORT),
        part=part,
        parts=parts,
        open_transaction=draw(st.none() | OPEN_TRANSACTION),
    )


FRAME = st.builds(Frame, headers(), st.lists(SCHEMA, max_size=4).map(tuple), st.binary(max_size=200))

CURSOR = st.builds(Cursor, TEXT, TEXT, LONG, HEX, LONG, LONG, POSITION, LSN, TEXT, LONG, st.none() | POSITION)
_SHAPE_ID = st.binary(min_size=8, max_size=8).map(bytes.hex)
_KINDS = st.lists(st.sampled_from(ShapeChangeKind).map(str), unique=True).map(tuple)
_REFUSED_SHAPE = st.builds(RefusedShape, _SHAPE_ID, _SHAPE_ID, _KINDS, POSITION, st.none() | POSITION)
REFUSED = st.lists(_REFUSED_SHAPE, max_size=16).map(tuple)
ACK = st.builds(Ack, TEXT, TEXT, LONG, TEXT, SIGNED, POSITION, LSN, SIGNED, TEXT, st.just(()) | REFUSED)
CONTROL = st.builds(LaneControl, LONG, st.sampled_from(Command))
DEAD_LETTER = st.builds(
    DeadLetter,
    id=st.binary(min_size=16, max_size=16).map(bytes.hex),
    pipeline=TEXT,
    lane=TEXT,
    generation=TEXT,
    frame=st.builds(FrameAddress, TEXT, LONG, LONG, LONG),
    position=POSITION,
    channel=TEXT,
    operation=TEXT,
    code=TEXT,
    message=TEXT,
    remedy=TEXT,
    time=SIGNED,
    payload=st.binary(max_size=60),
    schema=st.lists(st.binary(max_size=20), max_size=3).map(tuple),
    attempts=SHORT,
)
OPTIONS = st.builds(
    StreamOptions, st.lists(TEXT, max_size=3).map(tuple), st.integers(1, 4), st.booleans(), st.booleans(), TEXT
)
BRANCH = st.builds(Branch, SHORT, st.none() | LSN, SHORT, st.none() | LSN, LONG)
GAP = st.builds(Gap, LSN, LONG, st.binary(min_size=16, max_size=16).map(bytes.hex), st.sampled_from(GapReason))
EPOCH = st.builds(
    EpochRecord,
    st.sampled_from(EpochMode),
    LSN,
    POSITION,
    OPTIONS,
    st.none() | st.builds(PreviousEpoch, LONG, LONG, LONG, LONG),
    TEXT,
    SHORT,
    TEXT,
    st.none() | BRANCH,
    st.none() | GAP,
)
DETAILS = st.dictionaries(TEXT, TEXT | LONG | st.booleans() | st.none() | st.lists(TEXT, max_size=2), max_size=3)
MARK = st.builds(Mark, st.sampled_from(MarkKind), DETAILS)
FAILURE = st.none() | st.builds(Failure, TEXT, TEXT, TEXT, TEXT)
SECONDS = st.floats(0, 1e9)
_WHO = {"pipeline": TEXT, "state": st.sampled_from(State), "pid": SHORT, "time": SIGNED, "started": SIGNED}
LANE_STATUS = st.builds(
    LaneStatus,
    **_WHO,
    failure=FAILURE,
    sink=TEXT,
    incarnation=LONG,
    position=TEXT,
    safe_lsn=LONG,
    latency_p50_seconds=SECONDS,
    latency_p99_seconds=SECONDS,
)
READER_STATUS = st.builds(
    ReaderStatus,
    **_WHO,
    failure=FAILURE,
    generation=TEXT,
    confirmed_lsn=LONG,
    gate_holder=st.none() | TEXT,
    safe_wal_bytes=st.none() | LONG,
)


def any_json(leaves: Sequence[st.SearchStrategy[object]] = ()) -> st.SearchStrategy[object]:
    """What a JSON parser may meet, members' names that contracts know among others."""
    names = TEXT | st.sampled_from(["kind", "details", "checksum", "tail", "options", "previous", "frame", "version"])
    scalars = st.none() | st.booleans() | SIGNED | st.floats() | st.text(max_size=8)
    return st.recursive(
        st.one_of(scalars, *leaves),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=6),
        max_leaves=20,
    )
