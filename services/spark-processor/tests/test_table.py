"""The table of a lane's states: what a request does in each, and that none is dropped or done twice over."""

from itertools import product

import pytest

from tidegate.contracts.request import Asked
from tidegate_processor.table import LaneState, Step, step

BUSY = (LaneState.DRAINING, LaneState.REWINDING, LaneState.REPLAYING, LaneState.STOPPED)


@pytest.mark.parametrize(("state", "asked"), list(product(BUSY, Asked)))
def test_while_a_lane_is_busy_every_request_waits(state: LaneState, asked: Asked) -> None:
    assert step(state, asked) is Step.LATER


@pytest.mark.parametrize("asked", [Asked.PAUSE, Asked.REWIND])
def test_a_lane_that_runs_is_drained_first(asked: Asked) -> None:
    assert step(LaneState.RUNNING, asked) is Step.DRAIN


@pytest.mark.parametrize("state", [LaneState.WAITING, LaneState.PAUSED, LaneState.LOST])
def test_only_a_lane_that_does_not_run_is_set_back(state: LaneState) -> None:
    assert step(state, Asked.REWIND) is Step.SET_BACK


def test_pause_and_resume_twice_are_one() -> None:
    assert step(LaneState.PAUSED, Asked.PAUSE) is Step.NOTHING
    assert {step(state, Asked.RESUME) for state in (LaneState.WAITING, LaneState.RUNNING)} == {Step.NOTHING}


def test_a_lost_lane_is_resumed_and_its_loss_cannot_be_paused_away() -> None:
    assert step(LaneState.LOST, Asked.RESUME) is Step.START
    assert step(LaneState.LOST, Asked.PAUSE) is Step.REFUSE


def test_a_lane_goes_on_while_it_is_looked_what_a_replay_would_do() -> None:
    assert step(LaneState.RUNNING, Asked.REPLAY) is Step.LOOK
    assert {step(state, Asked.REPLAY) for state in (LaneState.WAITING, LaneState.PAUSED)} == {Step.DELIVER}


def test_a_lost_lane_delivers_no_letters() -> None:
    assert step(LaneState.LOST, Asked.REPLAY) is Step.REFUSE


@pytest.mark.parametrize("state", [state for state in LaneState if state not in BUSY])
def test_a_sink_may_be_pinged_whatever_its_lane_does(state: LaneState) -> None:
    assert step(state, Asked.PING) is Step.LOOK


def test_a_trial_is_made_while_the_lane_stands() -> None:
    assert step(LaneState.RUNNING, Asked.TRIAL) is Step.DRAIN
    assert {step(state, Asked.TRIAL) for state in (LaneState.WAITING, LaneState.PAUSED)} == {Step.DELIVER}
    assert step(LaneState.LOST, Asked.TRIAL) is Step.REFUSE
