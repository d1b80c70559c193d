"""Order and positions: the whole table, and that streaming a transaction does not move its changes."""

from itertools import product

import pytest

from tidegate.errors import DecodeError
from tidegate.lsn import Lsn
from tidegate.pgoutput.messages import (
    Begin,
    BeginPrepare,
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
from tidegate.pgoutput.transactions import State, Transactions
from tidegate.position import Position

LSN, END, TIME = Lsn(0x16B3748), Lsn(0x16B3778), 5
BEGIN, COMMIT = Begin(LSN, TIME, 750), Commit(LSN, END, TIME)
BEGIN_PREPARE, PREPARE = BeginPrepare(LSN, END, TIME, 752, "g"), Prepare(LSN, END, TIME, 752, "g")
COMMIT_PREPARED = CommitPrepared(LSN, END, TIME, 752, "g")
STREAM_COMMIT = StreamCommit(751, LSN, END, TIME)
MESSAGE, UNTIED = LogicalMessage(1, LSN, "p", b""), LogicalMessage(0, LSN, "p", b"")
INSERT, UPDATE, DELETE = Insert(1, ()), Update(1, None, None, ()), Delete(1, OldKind.KEY, ())
TRUNCATE = Truncate((1,), 0)
RELATION, TYPE, ORIGIN = Relation(1, "", "t", ReplicaIdentity.DEFAULT, ()), Type(1, "", "t"), Origin(LSN, "n")

ANYWHERE_INSIDE = {"insert", "update", "delete", "truncate", "message", "relation", "type", "origin"}
LEGAL = {
    State.IDLE: {
        *("begin", "begin prepare", "stream start", "untied message", "stream commit", "stream abort"),
        *("stream prepare", "commit prepared", "rollback prepared"),
    },
    State.TRANSACTION: ANYWHERE_INSIDE | {"commit"},
    State.STREAM: ANYWHERE_INSIDE | {"stream stop"},
    State.PREPARING: ANYWHERE_INSIDE | {"prepare"},
    State.BROKEN: set(),
}
MESSAGES: dict[str, Message] = {
    "begin": BEGIN,
    "commit": COMMIT,
    "origin": ORIGIN,
    "relation": RELATION,
    "type": TYPE,
    "insert": INSERT,
    "update": UPDATE,
    "delete": DELETE,
    "truncate": TRUNCATE,
    "message": MESSAGE,
    "untied message": UNTIED,
    "stream start": StreamStart(751, False),
    "stream stop": StreamStop(),
    "stream commit": STREAM_COMMIT,
    "stream abort": StreamAbort(751, 751),
    "stream prepare": StreamPrepare(LSN, END, TIME, 751, "s"),
    "begin prepare": BEGIN_PREPARE,
    "prepare": PREPARE,
    "commit prepared": COMMIT_PREPARED,
    "rollback prepared": RollbackPrepared(LSN, END, TIME, TIME, 752, "g"),
}


def _in(state: State) -> Transactions:
    """A session that has streamed a block of 751 already."""
    transactions = Transactions()
    _feed(transactions, StreamStart(751, True), StreamStop())
    match state:
        case State.TRANSACTION:
            transactions.place(BEGIN)
        case State.STREAM:
            transactions.place(StreamStart(751, False))
        case State.PREPARING:
            transactions.place(BEGIN_PREPARE)
        case State.BROKEN:
            with pytest.raises(DecodeError):
                transactions.place(INSERT)
        case State.IDLE:
            pass
    return transactions


def _feed(transactions: Transactions, *messages: Message) -> list[Position | None]:
    return [transactions.place(message) for message in messages]


@pytest.mark.parametrize(("state", "name"), list(product(State, MESSAGES)))
def test_who_may_follow_whom(state: State, name: str) -> None:
    transactions = _in(state)
    assert state is transactions.state

    if name in LEGAL[state]:
        transactions.place(MESSAGES[name])
        assert transactions.state is not State.BROKEN
    else:
        with pytest.raises(DecodeError) as refused:
            transactions.place(MESSAGES[name])
        assert refused.value.code == "DECODE_ILLEGAL_ORDER"
        assert transactions.state is State.BROKEN


def test_changes_are_counted_and_descriptions_are_not() -> None:
    positions = _feed(
        Transactions(),
        UNTIED,
        BEGIN,
        ORIGIN,
        RELATION,
        TYPE,
        INSERT,
        RELATION,
        UPDATE,
        DELETE,
        TRUNCATE,
        MESSAGE,
        COMMIT,
    )

    assert positions[:5] == [None] * 5
    assert [Position(LSN, 0), None, *(Position(LSN, ordinal) for ordinal in range(1, 6))] == positions[5:]


def test_every_transaction_counts_from_0() -> None:
    transactions = Transactions()
    later = Lsn(LSN + 100)
    _feed(transactions, BEGIN, INSERT, COMMIT)

    positions = _feed(transactions, Begin(later, TIME, 755), INSERT, Commit(later, later, TIME))

    assert [None, Position(later, 0), Position(later, 1)] == positions


def test_a_session_can_start_inside_a_transaction() -> None:
    transactions = Transactions()
    transactions.resume(BEGIN, 7)

    assert [Position(LSN, 7), Position(LSN, 8)] == _feed(transactions, INSERT, COMMIT)


def test_nothing_is_resumed_inside_a_transaction() -> None:
    with pytest.raises(DecodeError):
        _in(State.TRANSACTION).resume(BEGIN, 7)


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param((BEGIN, Commit(Lsn(1), END, TIME)), id="commit of another LSN"),
        pytest.param((BEGIN, Commit(LSN, END, 6)), id="commit of another time"),
        pytest.param((BEGIN, COMMIT, BEGIN), id="the same commit twice"),
        pytest.param((BEGIN_PREPARE, Prepare(LSN, END, TIME, 752, "other")), id="prepare of another gid"),
        pytest.param((StreamStart(9, False),), id="a later block first"),
        pytest.param((StreamStart(9, True), StreamStop(), StreamStart(9, True)), id="a first block twice"),
        pytest.param((StreamCommit(9, LSN, END, TIME),), id="commit of what was not streamed"),
        pytest.param((StreamStart(9, True), StreamStop(), StreamAbort(9, 9), StreamAbort(9, 9)), id="aborted twice"),
        pytest.param((BEGIN, COMMIT, CommitPrepared(LSN, END, TIME, 752, "g")), id="prepared commit runs back"),
    ],
)
def test_what_the_table_cannot_see_is_refused_too(messages: tuple[Message, ...]) -> None:
    transactions = Transactions()
    _feed(transactions, *messages[:-1])
    with pytest.raises(DecodeError):
        transactions.place(messages[-1])


def _streamed(*changes: tuple[int, int]) -> list[Message]:
    """A block of 751 for each (subtransaction, number of inserts)."""
    blocks: list[Message] = []
    for number, (xid, inserts) in enumerate(changes):
        blocks += [StreamStart(751, number == 0), *[Insert(1, (), xid)] * inserts, StreamStop()]
    return blocks


def test_a_streamed_commit_stands_where_it_would_unstreamed() -> None:
    """What an aborted subtransaction streamed takes no ordinals: a re-delivery without streaming never shows it."""
    transactions = Transactions()
    placed = _feed(transactions, *_streamed((751, 2), (760, 3), (761, 1)), StreamAbort(751, 760))
    assert {None} == set(placed)
    assert frozenset({760}) == transactions.aborted(751)

    assert Position(LSN, 3) == transactions.place(STREAM_COMMIT)
    assert frozenset() == transactions.aborted(751)


def test_an_aborted_streamed_transaction_is_forgotten() -> None:
    transactions = Transactions()
    _feed(transactions, *_streamed((751, 2)), StreamAbort(751, 751))

    with pytest.raises(DecodeError):
        transactions.place(STREAM_COMMIT)


def test_a_stream_may_wait_while_others_commit() -> None:
    transactions = Transactions()
    _feed(transactions, *_streamed((751, 2)))
    earlier = Lsn(LSN - 100)

    assert Position(earlier, 0) == _feed(transactions, Begin(earlier, TIME, 755), INSERT)[1]
    assert Position(earlier, 1) == transactions.place(Commit(earlier, LSN, TIME))
    assert Position(LSN, 2) == transactions.place(STREAM_COMMIT)


@pytest.mark.parametrize(
    "prepared",
    [
        [BEGIN_PREPARE, RELATION, INSERT, DELETE, PREPARE],
        [*_streamed((751, 2)), StreamPrepare(LSN, END, TIME, 751, "g")],
    ],
    ids=["plain", "streamed"],
)
def test_a_prepared_transaction_gets_its_position_when_it_commits(prepared: list[Message]) -> None:
    transactions = Transactions()
    assert {None} == set(_feed(transactions, *prepared))

    assert Position(LSN, 2) == transactions.place(COMMIT_PREPARED)


def test_a_commit_of_what_an_earlier_session_prepared_has_no_count() -> None:
    """Legal: after a restart the server sends only the COMMIT PREPARED."""
    transactions = Transactions()

    assert transactions.place(COMMIT_PREPARED) is None
    assert transactions.state is State.IDLE


def test_only_a_stream_block_tells_the_decoder_to_expect_an_xid() -> None:
    assert [state for state in State if _in(state).in_stream] == [State.STREAM]
