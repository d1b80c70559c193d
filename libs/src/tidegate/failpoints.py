"""Named places where a trial may end or hold a process, each once, at the worst moment instead of at any.

Inert unless TIDEGATE_FAILPOINTS names a folder when the process starts. In that folder a file of a failpoint's name
arms it, also later; its text is the action, and at which time from now it is taken, the first if it does not say:

| text | what happens where the failpoint is reached |
| --- | --- |
| `kill`, `kill 7` | the process gets SIGKILL, and the file is gone |
| `hold`, `hold 7` | the thread stands until somebody takes the file away, `HOLD_SECONDS` at most |

Invariant: without the variable `reach` compares one name with None and returns.
"""

import os
import time
from enum import StrEnum
from pathlib import Path
from signal import SIGKILL

VARIABLE = "TIDEGATE_FAILPOINTS"
HOLD_SECONDS = 60.0
_LOOK_SECONDS = 0.02
_FOLDER = os.environ.get(VARIABLE)


class Failpoint(StrEnum):
    READER_LOSS_NOTED = "reader_loss_noted"
    """That the slot or a gap is lost is written down, and nothing is done about it."""
    READER_SLOT_DROPPED = "reader_slot_dropped"
    """One that was invalidated; the new one is not made."""
    READER_SLOT_REMADE = "reader_slot_remade"
    """In place of one that was lost; no epoch frame tells of it."""
    READER_STREAM_STARTED = "reader_stream_started"
    """The slot is ours, the epoch has not begun."""
    READER_EPOCH_BEGUN = "reader_epoch_begun"
    """The epoch frame is acknowledged."""
    READER_GAP_ANNOUNCED = "reader_gap_announced"
    """In that frame; the snapshot that is owed for it is not begun."""
    READER_RECEIVED = "reader_received"
    """Messages are read from the server and not in the raw topic."""
    READER_SENT = "reader_sent"
    """A frame is with the client, its outcome unknown."""
    READER_PRODUCED = "reader_produced"
    """A frame is acknowledged by the broker, the gate does not know."""
    READER_ACKS_READ = "reader_acks_read"
    READER_STATUS_DUE = "reader_status_due"
    READER_STATUS_SENT = "reader_status_sent"
    READER_GOODBYE = "reader_goodbye"
    """It was told to stop, everything is in the raw topic, the last status is not sent."""
    LANE_STARTING = "lane_starting"
    """In the driver: the incarnation is posted, the query not started."""
    LANE_FENCED = "lane_fenced"
    """The writer before is fenced, the cursor read, nothing taken."""
    LANE_WRITTEN = "lane_written"
    """Events of a frame are with the sink, nothing is committed."""
    LANE_CURSOR_SENT = "lane_cursor_sent"
    """The cursor is in the Kafka transaction, events may be, its commit was not asked for."""
    LANE_COMMITTED = "lane_committed"
    """The sink has committed, the ack is not written."""
    LANE_ACKED = "lane_acked"
    ADMIN_REQUEST_CHECKED = "admin_request_checked"
    """A request to a lane is good, and not in the lane's list."""


def reach(point: Failpoint) -> None:
    if _FOLDER is not None:
        _act(Path(_FOLDER) / point)


def _act(file: Path) -> None:
    try:
        action, *times = file.read_text().split()
    except (FileNotFoundError, ValueError):  # not armed, or just being written
        return
    left = int(times[0]) if times else 1
    if left > 1:
        file.write_text(f"{action} {left - 1}")
    elif action == "kill":
        file.unlink(missing_ok=True)
        os.kill(os.getpid(), SIGKILL)
    elif action == "hold":
        _hold(file)


def _hold(file: Path) -> None:
    deadline = time.monotonic() + HOLD_SECONDS
    while file.exists() and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
