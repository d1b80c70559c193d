"""The live part of a session: a load by the clock, and each event's way from its commit to a consumer that parses it.

Commit times are the source's, stamped before it waits for its disk, so that this wait is part of every figure; source
and consumer share one clock.
"""

import time

from bench.contestants.base import Contestant, ContestantError
from bench.measure.consumer import Reading
from bench.measure.watch import Watch
from bench.outcome import Figure, Phase
from bench.source import Source
from bench.workloads import LIVE_TABLE, Load

WARM_SECONDS = 2.0
"""Not counted: what was idle wakes up."""
LATE_SECONDS = 60.0


def measure_live(
    contestant: Contestant, source: Source, reading: Reading, load: Load, watch: Watch, phase: Phase
) -> None:
    first = source.live_keys()
    took: dict[int, float] = {}
    doubled = 0
    seconds = float(load.seconds)
    live = contestant.rig.topic(LIVE_TABLE)
    with watch, source.writing(load, contestant.rig.folder) as writer:
        begun = time.monotonic()
        last: int | None = None
        for events in reading.arrived(LATE_SECONDS):
            now = time.time()
            for message in events:
                if message.topic() != live:
                    continue
                change = contestant.change(message.value())
                doubled += change.key in took
                took.setdefault(change.key, now - change.committed)
            if last is None and writer.poll() is not None:
                last, seconds = source.live_keys(), time.monotonic() - begun
            if last is not None and len(took) >= last - first:
                break
        spent = watch.end()
    _judge(phase, first, last or 0, took, doubled)
    phase.others_share, phase.is_noisy = spent.others_share + spent.stolen_share, spent.is_noisy
    if not phase.is_complete:
        raise ContestantError(f"{load.name}: {phase.lost:,} of {phase.expected:,} events lost")
    if writer.returncode != 0:
        raise ContestantError(f"pgbench ended with {writer.returncode}")
    skipped = int((last or 0) - first) * WARM_SECONDS / max(seconds, WARM_SECONDS)
    counted = sorted(each for key, each in took.items() if key > first + skipped) or sorted(took.values())
    events_each = len(took) / 1e6
    phase.figures |= {
        Figure.P50: _share_of(counted, 0.50) * 1000,
        Figure.P90: _share_of(counted, 0.90) * 1000,
        Figure.P99: _share_of(counted, 0.99) * 1000,
        Figure.WRITTEN_RATE: len(took) / seconds,
        Figure.CPU: spent.contestant_cpu / events_each,
        Figure.BROKER_CPU: spent.broker_cpu / events_each,
        Figure.SOURCE_CPU: spent.source_cpu / events_each,
        Figure.RSS: spent.rss_peak_mb,
        Figure.WAL_HELD: spent.wal_held_mb,
    }


def _judge(phase: Phase, first: int, last: int, took: dict[int, float], doubled: int) -> None:
    """Keys are drawn from a sequence by eight sessions: a rolled back one would leave a gap, and none rolls back."""
    phase.expected, phase.doubled = last - first, doubled
    phase.lost = sum(key not in took for key in range(first + 1, last + 1))


def _share_of(sorted_values: list[float], share: float) -> float:
    return sorted_values[min(len(sorted_values) - 1, int(len(sorted_values) * share))]
