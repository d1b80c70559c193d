"""A lane's states, and what a request does in each of them.

| state     | pause             | resume       | rewind                     | replay                              |
| --------- | ----------------- | ------------ | -------------------------- | ----------------------------------- |
| waiting   | → paused          | nothing      | set back → waiting         | deliver → waiting                   |
| running   | drain → paused    | nothing      | drain, set back → waiting  | look; drain, deliver → waiting      |
| paused    | nothing           | → waiting    | set back → paused          | deliver → paused                    |
| lost      | refused           | → waiting    | set back → waiting         | refused                             |
| draining, rewinding, replaying, stopped | the request waits, for the lane itself or for the next process      |

A lane goes on while it is looked what a replay would do, and is drained only if there is something to deliver. A ping
changes nothing in any state. A trial goes as a replay does, without a look.
A lane that is refused a rewind goes back to where it came from. Nothing is taken away before it is done, so a request
that a crash cuts off is done again from its beginning, before the lane starts.
"""

from collections.abc import Mapping
from enum import StrEnum

from tidegate.contracts.request import Asked


class LaneState(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    DRAINING = "draining"
    REWINDING = "rewinding"
    REPLAYING = "replaying"
    PAUSED = "paused"
    LOST = "lost"
    STOPPED = "stopped"


class Step(StrEnum):
    NOTHING = "nothing"
    """It is so already."""
    PAUSE = "pause"
    START = "start"
    SET_BACK = "set_back"
    LOOK = "look"
    """What would be delivered, beside the lane; then drain it, or answer. A ping is such a look too."""
    DELIVER = "deliver"
    """Dead letters, or a trial that is not committed."""
    DRAIN = "drain"
    """First; then the request is looked at again, in the state that has come of it."""
    REFUSE = "refuse"
    LATER = "later"


_STEPS: Mapping[tuple[LaneState, Asked], Step] = {
    (LaneState.WAITING, Asked.PAUSE): Step.PAUSE,
    (LaneState.WAITING, Asked.RESUME): Step.NOTHING,
    (LaneState.WAITING, Asked.REWIND): Step.SET_BACK,
    (LaneState.RUNNING, Asked.PAUSE): Step.DRAIN,
    (LaneState.RUNNING, Asked.RESUME): Step.NOTHING,
    (LaneState.RUNNING, Asked.REWIND): Step.DRAIN,
    (LaneState.PAUSED, Asked.PAUSE): Step.NOTHING,
    (LaneState.PAUSED, Asked.RESUME): Step.START,
    (LaneState.PAUSED, Asked.REWIND): Step.SET_BACK,
    (LaneState.WAITING, Asked.REPLAY): Step.DELIVER,
    (LaneState.RUNNING, Asked.REPLAY): Step.LOOK,
    (LaneState.PAUSED, Asked.REPLAY): Step.DELIVER,
    (LaneState.WAITING, Asked.TRIAL): Step.DELIVER,
    (LaneState.RUNNING, Asked.TRIAL): Step.DRAIN,
    (LaneState.PAUSED, Asked.TRIAL): Step.DELIVER,
    (LaneState.LOST, Asked.PAUSE): Step.REFUSE,
    (LaneState.LOST, Asked.RESUME): Step.START,
    (LaneState.LOST, Asked.REWIND): Step.SET_BACK,
}
_BUSY = frozenset({LaneState.DRAINING, LaneState.REWINDING, LaneState.REPLAYING, LaneState.STOPPED})


def step(state: LaneState, asked: Asked) -> Step:
    """What is asked for and has no row is not served."""
    if state in _BUSY:
        return Step.LATER
    return Step.LOOK if asked is Asked.PING else _STEPS.get((state, asked), Step.REFUSE)
