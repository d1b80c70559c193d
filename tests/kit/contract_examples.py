"""One value of every contract and the bytes it has for ever: what tests/golden/contracts was made from.

    PYTHONPATH=tests python -m kit.contract_examples

writes the files anew. A file that changes means that what was written before can't be read any more: raise the format
version, keep the old file, and add the new one beside it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kit.cursor_examples import ack_examples, cursor_examples
from kit.epoch_examples import COMMIT_LSN, END_LSN, LINEAGE, MOVED, NONCE, SINCE, TOPIC_ID, epoch_examples
from kit.frames import COMMIT_TIME, GENERATION, INT4, ORDERS, TEXT, row
from kit.replay_examples import replay_examples
from kit.snapshot_examples import DOCUMENTS

from tidegate.contracts.ack import Ack
from tidegate.contracts.control import Command, LaneControl, decode_control
from tidegate.contracts.cursor import Cursor
from tidegate.contracts.dead_letter import DeadLetter, FrameAddress, decode_dead_letter
from tidegate.contracts.frame import (
    BODY_ENTRY,
    Frame,
    FrameHeader,
    FrameKind,
    OpenTransaction,
    SchemaEntry,
    SchemaRole,
    decode_frame,
    encode_frame,
)
from tidegate.contracts.generation import Generation
from tidegate.contracts.lineage import decode_lineage
from tidegate.contracts.mark import Mark, MarkKind
from tidegate.contracts.request import (
    Asked,
    LaneOutcome,
    LanePause,
    LaneRequest,
    Result,
    decode_outcome,
    decode_pause,
    decode_request,
)
from tidegate.contracts.resolution import Outcome, Resolution, decode_resolution
from tidegate.contracts.snapshot import SnapshotHead, reading_number
from tidegate.contracts.status import Failure, LaneStatus, ReaderStatus, State
from tidegate.lsn import MAX_LSN, Lsn
from tidegate.pgoutput.encode import encode_message
from tidegate.pgoutput.messages import Begin, Column, Commit, Message, Relation, ReplicaIdentity, Type
from tidegate.position import MAX_ORDINAL, Position

FOLDER = Path(__file__).parents[1] / "golden" / "contracts"

CREATED = 1_767_225_600_250_000
MOOD = 16_400
PEOPLE = Relation(
    16_390, "public", "people", ReplicaIdentity.FULL, (Column(1, "name", TEXT, -1), Column(1, "mood", MOOD, -1))
)
PEOPLE_BEFORE = Relation(16_390, "public", "people", ReplicaIdentity.FULL, (Column(1, "name", TEXT, -1),))


@dataclass(frozen=True, slots=True)
class Example:
    value: object
    encoded: bytes
    decode: Callable[[bytes], object]

    @property
    def is_sealed(self) -> bool:
        return self.encoded[:4] == b"TGFR" or b'"checksum"' in self.encoded


def messages(*each: Message, lsn: Lsn = COMMIT_LSN) -> bytes:
    return b"".join(BODY_ENTRY.pack(len(raw), lsn) + raw for raw in map(encode_message, each))


def header(kind: FrameKind = FrameKind.WAL, **fields: object) -> FrameHeader:
    known: dict[str, object] = {
        "generation": GENERATION,
        "epoch": 2,
        "epoch_nonce": NONCE,
        "epoch_offset": 100,
        "seq": 7,
        "first": Position(COMMIT_LSN, 0),
        "last": Position(COMMIT_LSN, 2),
        "safe_lsn": END_LSN,
        "created": CREATED,
    }
    return FrameHeader(kind=kind, **(known | fields))  # type: ignore[arg-type]


BEGIN, COMMIT = Begin(COMMIT_LSN, COMMIT_TIME, 750), Commit(COMMIT_LSN, END_LSN, COMMIT_TIME)
OPEN = OpenTransaction(750, COMMIT_LSN, COMMIT_TIME, 1)
ROWS = b"1\ttea\n2\t\\N\n"
WINDOW = SnapshotHead(
    NONCE, ORDERS.relation_id, reading_number(2, 1), 4, 2, COMMIT_TIME, Position(COMMIT_LSN, 1), 105, is_last=True
)
EXPORTED = SnapshotHead(NONCE, ORDERS.relation_id, reading_number(2, 0), 0, 2, COMMIT_TIME)
SCHEMA_CHANGE = Mark(MarkKind.SCHEMA_CHANGE, {"schema": "public", "table": "people", "relation_id": 16_390})


def current(*each: Message) -> tuple[SchemaEntry, ...]:
    return tuple(SchemaEntry(SchemaRole.CURRENT, encode_message(message)) for message in each)


def frames() -> dict[str, tuple[FrameHeader, tuple[SchemaEntry, ...], bytes, int]]:
    """Header, schema, body and least length of each."""
    at_end = {"first": Position(COMMIT_LSN, 2), "last": Position(COMMIT_LSN, 2)}
    two_rows = header(FrameKind.SNAPSHOT, **at_end, messages=2)
    long_row = messages(row(2, "x" * 100))
    half = {"first": Position(COMMIT_LSN, 1), "open_transaction": OPEN, "messages": 1, "changes": 1}
    before_it, at_it = Position(COMMIT_LSN, 0), Position(COMMIT_LSN, 1)
    return {
        **epoch_examples(header),
        "wal": (
            header(messages=4, changes=2),
            current(ORDERS),
            messages(BEGIN, row(1, "tea"), row(2, "\N{SNOWMAN}"), COMMIT),
            0,
        ),
        "wal-mid-transaction": (
            header(first=at_it, open_transaction=OPEN, messages=2, changes=1),
            current(ORDERS),
            messages(row(2, "tea"), COMMIT),
            0,
        ),
        "wal-part-1": (header(**half, last=before_it, part=1, parts=2), current(ORDERS), long_row[:60], 0),
        "wal-part-2": (header(**half, seq=8, last=at_it, part=2, parts=2), current(ORDERS), long_row[60:], 0),
        "tick": (header(**at_end), (), b"", 1536),
        "keepalive": (header(**at_end, safe_lsn=Lsn(0x16B4000)), (), b"", 0),
        "snapshot": (two_rows, current(ORDERS), WINDOW.encode() + ROWS, 0),
        "snapshot-exported": (two_rows, current(ORDERS), EXPORTED.encode() + ROWS, 0),
        "mark": (
            header(FrameKind.MARK, **at_end),
            (
                SchemaEntry(SchemaRole.PREVIOUS, encode_message(PEOPLE_BEFORE)),
                *current(Type(MOOD, "public", "mood"), PEOPLE),
            ),
            SCHEMA_CHANGE.encode(),
            0,
        ),
        "widest": (widest_header(), (), b"", 0),
    }


def widest_header() -> FrameHeader:
    """Every field at the end of its range."""
    far, short, long = Position(MAX_LSN, MAX_ORDINAL), 2**32 - 1, 2**64 - 1
    return FrameHeader(
        kind=FrameKind.WAL,
        generation=Generation(long, short, "d" * 63, "\N{SNOWMAN}" * 21, b"\xff" * 16),
        epoch=long,
        epoch_nonce=b"\xff" * 16,
        epoch_offset=long - 1,
        seq=long,
        first=far,
        last=far,
        safe_lsn=MAX_LSN,
        created=2**63 - 1,
        messages=short,
        changes=short,
        part=short,
        parts=short,
        open_transaction=OpenTransaction(short, MAX_LSN, -(2**63), MAX_ORDINAL),
    )


def examples() -> dict[str, Example]:
    """File name to example."""
    found = {}
    for name, (head, schema, body, least) in frames().items():
        encoded = encode_frame(head, schema, (body,), min_bytes=least)
        found[f"frame-v1-{name}.bin"] = Example(Frame(head, schema, body), encoded, decode_frame)
    told = DOCUMENTS | replay_examples(DEAD_LETTER, RESOLUTION) | cursor_examples(CURSOR) | ack_examples(ACK)
    found |= {name: Example(*parts) for name, parts in told.items()}
    return found | {
        "lane-request-since.json": Example(LANE_REQUEST_SINCE, LANE_REQUEST_SINCE.encode(), decode_request),
        "lane-request-offset.json": Example(LANE_REQUEST_OFFSET, LANE_REQUEST_OFFSET.encode(), decode_request),
        "lane-outcome.json": Example(LANE_OUTCOME, LANE_OUTCOME.encode(), decode_outcome),
        "lane-pause.json": Example(LANE_PAUSE, LANE_PAUSE.encode(), decode_pause),
        "control.json": Example(CONTROL, CONTROL.encode(), decode_control),
        "lineage.json": Example(LINEAGE, LINEAGE.encode(), decode_lineage),
        "lineage-failover.json": Example(MOVED, MOVED.encode(), decode_lineage),
        "lineage-options.json": Example(SINCE, SINCE.encode(), decode_lineage),
        "resolution-v1.json": Example(RESOLUTION, RESOLUTION.encode(), decode_resolution),
        "lane-request.json": Example(LANE_REQUEST, LANE_REQUEST.encode(), decode_request),
        "dead-letter-v1.json": Example(DEAD_LETTER, DEAD_LETTER.encode(), decode_dead_letter),
        "lane-status.json": Example(LANE, LANE.encode(), LaneStatus.decode),
        "reader-status.json": Example(READER, READER.encode(), ReaderStatus.decode),
    }


ACK = Ack("orders", GENERATION.id, 2, TOPIC_ID, 107, Position(COMMIT_LSN, 2), END_LSN, CREATED, "b1946ac9")
CURSOR = Cursor(
    GENERATION.id, TOPIC_ID, 2, NONCE.hex(), 7, 108, Position(COMMIT_LSN, 2), END_LSN, "b1946ac9", 1_767_225_600_000
)
CONTROL = LaneControl(1_767_225_600_000, Command.STOP)
RESOLUTION = Resolution(Outcome.PURGED, ("5d41402abc4b2a76b9719d911017c592",), "somebody", CREATED)
REQUEST_ID = "0b6cf5a8e0f24bd19f0c8a1f0e6f9a11"
LANE_REQUEST = LaneRequest(REQUEST_ID, Asked.REWIND, "somebody", CREATED, position=Position(COMMIT_LSN, 2))
LANE_REQUEST_SINCE = LaneRequest(LANE_REQUEST.id, Asked.REWIND, "somebody", CREATED, since=CREATED - 3_600_000_000)
LANE_REQUEST_OFFSET = LaneRequest(LANE_REQUEST.id, Asked.REWIND, "somebody", CREATED, offset=100)
LANE_OUTCOME = LaneOutcome(
    LANE_REQUEST.id, Result.REFUSED, CREATED, "REWIND_TOO_FAR", "the raw topic begins behind it", "Name a later place."
)
LANE_PAUSE = LanePause(True, "somebody", CREATED)
DEAD_LETTER = DeadLetter(
    id="5d41402abc4b2a76b9719d911017c592",
    pipeline="shop",
    lane="orders",
    generation=GENERATION.id,
    frame=FrameAddress(TOPIC_ID, 107, 2, 7),
    position=Position(COMMIT_LSN, 1),
    channel="public.orders",
    operation="INSERT",
    code="VALUE_NOT_UTF8",
    message="a value in public.orders that is not UTF-8",
    remedy="Mend it at the source.",
    time=CREATED,
    payload=b"I\x00\x00\x40\x01N\x00\x01t\x00\x00\x00\x01\xff",
    schema=(encode_message(ORDERS), encode_message(Type(INT4, "", "int4"))),
)
LANE = LaneStatus(
    pipeline="shop",
    sink="orders",
    state=State.RUNNING,
    pid=4711,
    time=CREATED,
    started=CREATED - 60_000_000,
    incarnation=1_767_225_600_000,
    config_epoch="b1946ac9",
    trigger="realtime",
    spark_ui="http://127.0.0.1:4040",
    generation=GENERATION.id,
    epoch=2,
    raw_offset=107,
    position="00000000016b3748:0000000000000002",
    safe_lsn=END_LSN,
    frames=108,
    events=2,
    bytes=640,
    write_seconds=0.021,
    commit_seconds=0.014,
    last_commit_time=CREATED,
    latency_p50_seconds=0.004,
    latency_p99_seconds=0.009,
)
READER = ReaderStatus(
    pipeline="shop",
    state=State.FAILED,
    pid=4712,
    time=CREATED,
    started=CREATED - 60_000_000,
    failure=Failure("StreamError", "GAP_LOST", "the raw topic does not hold what lies between", "Take a snapshot."),
    generation=GENERATION.id,
    epoch=2,
    server_lsn=END_LSN,
    received_lsn=END_LSN,
    raw_offset=107,
    produced_lsn=END_LSN,
    confirmed_lsn=END_LSN,
    gate_holder="orders",
    frames=108,
    changes=2,
    bytes=640,
    wal_held_bytes=48,
    safe_wal_bytes=2**30,
)


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, example in examples().items():
        (FOLDER / name).write_bytes(example.encoded)


if __name__ == "__main__":
    main()
