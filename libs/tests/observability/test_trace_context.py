"""A trace is derived: the same for whoever knows the transaction, another one for each transaction."""

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.events import EventIds
from tidegate.lsn import Lsn
from tidegate.observability.trace_context import Sampler, mix, new_span_id, trace_of

# W3C Trace Context, 3.2.2: version 00, ids in lower case and not of zeros alone, flags.
W3C = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-01")
LSN = st.integers(0, 2**64 - 1).map(Lsn)
TRANSACTION = st.fixed_dictionaries(
    {
        "system_id": st.integers(0, 2**64 - 1),
        "commit_lsn": LSN,
        "xid": st.integers(0, 2**32 - 1),
        "commit_time": st.integers(-(2**63), 2**63 - 1),
    }
)
EXAMPLE = {"system_id": 7_300_000_000_000_000_001, "commit_lsn": Lsn(0x16B3748), "xid": 750, "commit_time": 1}


@given(TRANSACTION)
def test_it_is_valid_and_the_same_for_all(transaction) -> None:
    assert W3C.fullmatch(trace_of(**transaction).traceparent)
    assert trace_of(**transaction) == trace_of(**transaction)


@given(TRANSACTION, TRANSACTION)
def test_two_transactions_have_two_traces(one, other) -> None:
    assert (trace_of(**one) == trace_of(**other)) is (one == other)
    assert (trace_of(**one).trace_id == trace_of(**other).trace_id) is (one == other)


@pytest.mark.parametrize("member", EXAMPLE)
def test_all_that_identifies_it_counts(member: str) -> None:
    assert trace_of(**EXAMPLE | {member: EXAMPLE[member] + 1}).trace_id != trace_of(**EXAMPLE).trace_id


def test_it_never_changes() -> None:
    """Consumers may have stored it; another process computes the same."""
    program = f"from tidegate.observability.trace_context import trace_of; print(trace_of(**{EXAMPLE}).traceparent)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert (
        "00-af808551c9ea692c95563c75a764090b-19fb278b82effa89-01"
        == trace_of(**EXAMPLE).traceparent
        == done.stdout.strip()
    )


def test_it_tells_nothing_of_the_events_ids() -> None:
    seed = EventIds(**EXAMPLE).id(0).replace("-", "")[-12:]

    assert seed not in trace_of(**EXAMPLE).traceparent


@pytest.mark.parametrize("ratio", [0.001, 0.01, 0.1, 0.5])
@pytest.mark.parametrize("step", [8, 0x30, 0x98, 0x2000, 0x1000000, 987 * 8])
def test_the_share_that_is_sampled_is_the_ratio_however_regular_the_transactions_are(ratio: float, step: int) -> None:
    sampler, count = Sampler(ratio), 100_000
    taken = sum(sampler.takes(0x16B3748 + step * each) for each in range(count))

    # Five standard deviations of a fair draw.
    assert abs(taken - ratio * count) < 5 * (ratio * (1 - ratio) * count) ** 0.5


@given(LSN)
def test_none_is_above_one_and_the_mix_is_within_its_bounds(lsn: Lsn) -> None:
    assert 0 <= mix(lsn) < 2**53
    assert Sampler(1.0).takes(lsn)
    assert not Sampler(5e-324).takes(lsn)


@given(LSN, st.floats(0, 1), st.floats(0, 1))
def test_what_a_small_ratio_takes_a_larger_one_takes_too(lsn: Lsn, one: float, other: float) -> None:
    assert Sampler(max(one, other)).takes(lsn) or not Sampler(min(one, other)).takes(lsn)


def test_a_span_that_is_not_derived_has_an_id_of_its_own() -> None:
    assert len({new_span_id() for _ in range(1000)}) == 1000
