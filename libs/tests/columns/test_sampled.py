"""Which transactions of a frame are sampled: as the reader decides of each, one by one."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.frames import COMMIT_TIME, GENERATION, ORDERS, RawLog, row

from tidegate.columns.sampled import SampledScan
from tidegate.contracts.frame import BODY_ENTRY, Frame, decode_frame
from tidegate.lsn import Lsn
from tidegate.observability.trace_context import Sampler, trace_of
from tidegate.pgoutput.encode import encode_message
from tidegate.pgoutput.messages import Begin, Commit, Insert, Message
from tidegate.position import BEGINNING, Position

EVEN_STEP = 0x40


def frame(lsns: Sequence[Lsn]) -> Frame:
    """Of one transaction each."""
    log = RawLog()
    log.epoch()
    made = decode_frame(log.transaction(row(1)))
    messages: list[Message] = []
    for lsn in lsns:
        messages += [Begin(lsn, COMMIT_TIME, 700), row(1), Commit(lsn, Lsn(lsn + 0x30), COMMIT_TIME)]
    body = b"".join(BODY_ENTRY.pack(len(raw), 9) + raw for raw in map(encode_message, messages))
    return Frame(made.header, made.schema, body)


def lsns_of(scan: SampledScan, frame: Frame, after: Position = BEGINNING) -> list[Lsn]:
    return [lsn for lsn, _, _ in scan.of(frame, after)]


@pytest.mark.parametrize("ratio", [0.01, 0.3, 1.0])
@pytest.mark.parametrize("first", [0x16B3748, 2**63 - 1000 * EVEN_STEP, 2**64 - 2000 * EVEN_STEP])
def test_it_is_the_reader_s_decision(ratio: float, first: int) -> None:
    lsns = [Lsn(first + EVEN_STEP * each) for each in range(1000)]
    sampler = Sampler(ratio)

    assert lsns_of(SampledScan(sampler), frame(lsns)) == [lsn for lsn in lsns if sampler.takes(lsn)]


def test_it_has_the_trace_that_everybody_derives() -> None:
    lsn = Lsn(2**63 + 8)
    context = trace_of(system_id=GENERATION.system_identifier, commit_lsn=lsn, xid=700, commit_time=COMMIT_TIME)

    assert SampledScan(Sampler(1.0)).of(frame([lsn]), BEGINNING) == [(lsn, 700, context)]


def test_what_lies_below_was_delivered_before() -> None:
    lsns = [Lsn(0x1000 + EVEN_STEP * each) for each in range(5)]
    scan = SampledScan(Sampler(1.0))

    assert lsns_of(scan, frame(lsns), Position(lsns[2], 0)) == lsns[2:]


def test_one_in_two_frames_is_found_in_both() -> None:
    log = RawLog()
    log.epoch()
    log.split_transaction([row(1)], [row(2)])
    scan = SampledScan(Sampler(1.0))

    [head], [tail] = (scan.of(decode_frame(each), BEGINNING) for each in log.frames[1:])
    assert head == tail


def test_a_body_cut_anywhere_gives_what_stands_before_the_cut() -> None:
    lsns = [Lsn(0x1000 + EVEN_STEP * each) for each in range(3)]
    whole, scan = frame(lsns), SampledScan(Sampler(1.0))

    found = [lsns_of(scan, replace(whole, body=whole.body[:cut])) for cut in range(len(whole.body) + 1)]
    assert all(each == lsns[: len(each)] for each in found)
    assert (found[0], found[-1]) == ([], lsns)
    assert sorted(found, key=len) == found


@given(st.binary(max_size=200))
def test_no_bytes_at_all_break_it(body: bytes) -> None:
    assert len(lsns_of(SampledScan(Sampler(1.0)), replace(frame([Lsn(8)]), body=body))) <= len(body) // 33


def test_a_row_that_looks_like_a_begin_is_none() -> None:
    text = BODY_ENTRY.pack(21, 0) + b"B" + bytes(20)
    log = RawLog()
    log.epoch()
    made = decode_frame(log.transaction(Insert(ORDERS.relation_id, (b"1", text * 3))))

    assert len(SampledScan(Sampler(1.0)).of(made, BEGINNING)) == 1


def test_a_frame_without_a_transaction_has_none() -> None:
    log = RawLog()
    log.epoch()

    assert lsns_of(SampledScan(Sampler(1.0)), decode_frame(log.tick())) == []
