"""What one incarnation of a lane has done, for its status. Nothing is decided by it."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Counters:
    frames: int = 0
    events: int = 0
    bytes: int = 0
    dead_letters: int = 0
    gaps: int = 0
    last_commit_time: int = 0
    write_seconds: float = 0.0
    """In the sink's `write`: decoding, transforming, encoding, handing over."""
    commit_seconds: float = 0.0
    """In its `commit`: until it was durable."""
    latencies: list[float] = field(default_factory=list)
    """Seconds from commit to durable, since the last report."""
