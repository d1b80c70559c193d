"""Golden bytes written by hand from the manual's message formats: what each says, and that no part of one passes."""

import pytest

from tidegate.errors import DecodeError
from tidegate.pgoutput import decode_message, encode_message
from tidegate.pgoutput.messages import (
    UNCHANGED,
    Begin,
    BeginPrepare,
    Binary,
    Column,
    Commit,
    CommitPrepared,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    OldKind,
    Origin,
    Prepare,
    Relation,
    ReplicaIdentity,
    RollbackPrepared,
    StreamAbort,
    StreamCommit,
    StreamPrepare,
    StreamStart,
    StreamStop,
    Truncate,
    Type,
    Update,
)

_LSN = "00000000016b3748"
_END = "00000000016b3778"
_TIME = "0002a5b4c3d2e1f0"
_T = 0x0002A5B4C3D2E1F0
_XID = "000002ee"
_ROW = "0004" + "6e" + "75" + "74 00000002 6869" + "62 00000001 ff"
_VALUES = (None, UNCHANGED, b"hi", Binary(b"\xff"))
_GID = "67696400"

# name: (bytes in hex, message, keyword arguments of decode_message)
GOLDEN: dict[str, tuple[str, Message, dict[str, bool]]] = {
    "begin": ("42" + _LSN + _TIME + _XID, Begin(0x16B3748, _T, 750), {}),
    "commit": ("43 00" + _LSN + _END + _TIME, Commit(0x16B3748, 0x16B3778, _T), {}),
    "origin": ("4f" + _LSN + "6e6f646500", Origin(0x16B3748, "node"), {}),
    "relation": (
        "52 00004000 7075626c696300 7400 64 0002 01 696400 00000017 ffffffff 00 c3a900 000006a4 00050004",
        Relation(
            0x4000,
            "public",
            "t",
            ReplicaIdentity.DEFAULT,
            (Column(1, "id", 23, -1), Column(0, "é", 1700, 0x00050004)),
        ),
        {},
    ),
    "relation in stream": (
        "52" + _XID + "00000001 00 7400 66 0000",
        Relation(1, "", "t", ReplicaIdentity.FULL, (), 750),
        {"in_stream": True},
    ),
    "type": ("59 00004001 7300 6d6f6f6400", Type(0x4001, "s", "mood"), {}),
    "insert": ("49 00004000 4e" + _ROW, Insert(0x4000, _VALUES), {}),
    "insert in stream": ("49" + _XID + "00004000 4e" + _ROW, Insert(0x4000, _VALUES, 750), {"in_stream": True}),
    "update": ("55 00004000 4e" + _ROW, Update(0x4000, None, None, _VALUES), {}),
    "update with key": ("55 00004000 4b" + _ROW + "4e" + _ROW, Update(0x4000, OldKind.KEY, _VALUES, _VALUES), {}),
    "update with old": ("55 00004000 4f" + _ROW + "4e" + _ROW, Update(0x4000, OldKind.FULL, _VALUES, _VALUES), {}),
    "delete by key": ("44 00004000 4b" + _ROW, Delete(0x4000, OldKind.KEY, _VALUES), {}),
    "delete of old": ("44 00004000 4f" + _ROW, Delete(0x4000, OldKind.FULL, _VALUES), {}),
    "truncate": ("54 00000002 03 00004000 00004001", Truncate((0x4000, 0x4001), 3), {}),
    "message": ("4d 01" + _LSN + "7000 00000002 00ff", LogicalMessage(1, 0x16B3748, "p", b"\x00\xff"), {}),
    "stream start": ("53" + _XID + "01", StreamStart(750, True), {}),
    "stream stop": ("45", StreamStop(), {}),
    "stream commit": ("63" + _XID + "00" + _LSN + _END + _TIME, StreamCommit(750, 0x16B3748, 0x16B3778, _T), {}),
    "stream abort": ("41" + _XID + "000002ef", StreamAbort(750, 751), {}),
    "stream abort, parallel": (
        "41" + _XID + "000002ef" + _LSN + _TIME,
        StreamAbort(750, 751, 0x16B3748, _T),
        {"parallel": True},
    ),
    "begin prepare": ("62" + _LSN + _END + _TIME + _XID + _GID, BeginPrepare(0x16B3748, 0x16B3778, _T, 750, "gid"), {}),
    "prepare": ("50 00" + _LSN + _END + _TIME + _XID + _GID, Prepare(0x16B3748, 0x16B3778, _T, 750, "gid"), {}),
    "commit prepared": (
        "4b 00" + _LSN + _END + _TIME + _XID + _GID,
        CommitPrepared(0x16B3748, 0x16B3778, _T, 750, "gid"),
        {},
    ),
    "rollback prepared": (
        "72 00" + _LSN + _END + _TIME + _TIME + _XID + _GID,
        RollbackPrepared(0x16B3748, 0x16B3778, _T, _T, 750, "gid"),
        {},
    ),
    "stream prepare": (
        "70 00" + _LSN + _END + _TIME + _XID + _GID,
        StreamPrepare(0x16B3748, 0x16B3778, _T, 750, "gid"),
        {},
    ),
}

golden = pytest.mark.parametrize(("hexadecimal", "message", "told"), GOLDEN.values(), ids=GOLDEN.keys())


@golden
def test_golden_bytes_say_what_the_manual_says(hexadecimal: str, message: Message, told: dict[str, bool]) -> None:
    assert message == decode_message(bytes.fromhex(hexadecimal), **told)


@golden
def test_encoding_gives_the_golden_bytes_back(hexadecimal: str, message: Message, told: dict[str, bool]) -> None:
    assert bytes.fromhex(hexadecimal) == encode_message(message)


@golden
def test_a_message_cut_anywhere_is_refused(hexadecimal: str, message: Message, told: dict[str, bool]) -> None:
    whole = bytes.fromhex(hexadecimal)
    for length in range(len(whole)):
        with pytest.raises(DecodeError) as refused:
            decode_message(whole[:length], **told)
        assert 0 <= refused.value.offset <= length


@golden
def test_a_byte_too_many_is_refused(hexadecimal: str, message: Message, told: dict[str, bool]) -> None:
    with pytest.raises(DecodeError) as refused:
        decode_message(bytes.fromhex(hexadecimal) + b"\0", **told)
    assert refused.value.code == "DECODE_TRAILING"


def test_the_case_of_the_tag_decides() -> None:
    twins = {"B": Begin, "b": BeginPrepare, "C": Commit, "c": StreamCommit, "K": CommitPrepared}
    twins |= {"P": Prepare, "p": StreamPrepare, "R": Relation, "r": RollbackPrepared}
    bodies = {
        bytes.fromhex(golden)[:1].decode(): bytes.fromhex(golden) for golden, _, told in GOLDEN.values() if not told
    }

    assert twins == {tag: type(decode_message(bodies[tag])) for tag in twins}


@pytest.mark.parametrize(
    "hexadecimal",
    [
        pytest.param("", id="nothing"),
        pytest.param("7a", id="unknown tag"),
        pytest.param("6b" + _LSN, id="a keepalive is an envelope, no message"),
        pytest.param("43 01" + _LSN + _END + _TIME, id="commit with flags"),
        pytest.param("49 00004000 4f 0000", id="insert of an old row"),
        pytest.param("49 00004000 4e ffff", id="negative number of columns"),
        pytest.param("49 00004000 4e 7fff 6e", id="more columns than bytes"),
        pytest.param("49 00004000 4e 0001 74 7fffffff", id="value of two gigabytes"),
        pytest.param("49 00004000 4e 0001 74 ffffffff", id="value of negative length"),
        pytest.param("49 00004000 4e 0001 78", id="unknown kind of value"),
        pytest.param("55 00004000 4b 0000 4b 0000", id="two old rows"),
        pytest.param("44 00004000 4e 0000", id="delete with a new row"),
        pytest.param("54 7fffffff 00", id="two thousand million relations"),
        pytest.param("54 ffffffff 00", id="negative number of relations"),
        pytest.param("54 00000000 04", id="unknown truncate option"),
        pytest.param("4d 02" + _LSN + "00 00000000", id="unknown message flag"),
        pytest.param("4d 00" + _LSN + "00 80000000", id="negative content"),
        pytest.param("52 00000001 00 7400 78 0000", id="unknown replica identity"),
        pytest.param("52 00000001 00 ff00 64 0000", id="name not UTF-8"),
        pytest.param("53" + _XID + "02", id="a segment neither first nor not"),
    ],
)
def test_what_no_server_sends_is_refused(hexadecimal: str) -> None:
    with pytest.raises(DecodeError):
        decode_message(bytes.fromhex(hexadecimal))


def test_an_error_never_shows_a_value() -> None:
    """Not in its text, and not in the exception it came from, which a log prints too."""
    with pytest.raises(DecodeError) as refused:
        decode_message(b"R\0\0\0\1\0secret\xff\0d\0\0")

    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__
    assert "secret" not in repr(refused.value.args)
