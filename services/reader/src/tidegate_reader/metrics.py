"""Every metric of the reader, declared once."""

from collections.abc import Callable, Sequence

from tidegate.observability.metrics import Metrics
from tidegate_reader.progress import Progress


class ReaderMetrics:
    def __init__(self, progress: Progress, required: Sequence[str]) -> None:
        self.all = Metrics("reader")
        self.received = self.all.counter("received", "messages", "Replication messages received from the server.")
        self.received_bytes = self.all.counter("received", "bytes", "Bytes of these messages, envelopes included.")
        self.dropped = self.all.counter(
            "dropped", "messages", "Non-transactional logical messages: they have no position and are not delivered."
        )
        self.frames = self.all.counter("produced", "frames", "Frames acknowledged by the broker.")
        self.changes = self.all.counter("produced", "changes", "Changes inside these frames.")
        self.produced_bytes = self.all.counter("produced", "bytes", "Bytes of these frames.")
        self.statuses = self.all.counter("sent", "statuses", "Standby status updates sent to the server.")
        self.heartbeats = self.all.counter("written", "heartbeats", "Heartbeat messages written to the source.")
        self.snapshot_rows = self.all.counter("snapshot", "rows", "Rows of snapshots, durable in the raw topic.")
        self.snapshot_bytes = self.all.counter("snapshot", "bytes", "Bytes of these rows.")
        self.gaps = self.all.counter(
            "announced", "gaps", "Losses of slot or WAL that were announced, and answered with a snapshot."
        )
        self.dropped_spans = self.all.counter(
            "dropped", "spans", "Spans of sampled transactions that no collector has taken."
        )
        self.config_refused = self.all.gauge(
            "config", "refused", "1 while the file on disk is refused and the one before is in force."
        )
        self._progress = progress
        self._holds = self.all.gauge("gate_held", "flag", "1 for the sink that the gate waits for.", sink=())
        self.require(required)
        self._follow(progress)

    def require(self, sinks: Sequence[str]) -> None:
        """Series of these alone from now on."""
        self.all.relabel("sink", sinks)
        for sink in sinks:
            self._holds.follow(_holds(self._progress, sink), sink=sink)

    def _follow(self, progress: Progress) -> None:
        gauges = (
            ("server", "lsn", "End of the server's WAL.", lambda: progress.server_lsn),
            ("received", "lsn", "Highest LSN received.", lambda: progress.received_lsn),
            ("produced", "lsn", "safe_lsn of the last acknowledged frame.", lambda: progress.produced_lsn),
            ("confirmed", "lsn", "What the source may forget.", lambda: progress.confirmed_lsn),
            ("wal_held", "bytes", "WAL that the slot keeps on the server.", lambda: progress.wal_held_bytes),
            ("in_flight", "bytes", "Bytes of frames sent and not yet acknowledged.", lambda: progress.in_flight_bytes),
            ("raw", "offset", "Offset of the last acknowledged frame.", lambda: progress.raw_offset),
            ("raw_beginning", "offset", "Where the raw topic begins, after retention.", lambda: progress.raw_beginning),
            ("published", "tables", "Tables that the publications hold.", lambda: progress.published_tables),
            (
                "wal_zone",
                "number",
                "0 green, 1 yellow, 2 red: how much of what it may hold the slot holds.",
                lambda: progress.wal_zone,
            ),
            (
                "slot_dies_in",
                "seconds",
                "Until the server gives the slot up, if WAL grows on as it did; -1 if it does not.",
                lambda: -1 if progress.slot_dies_in_seconds is None else progress.slot_dies_in_seconds,
            ),
            (
                "oldest_transaction",
                "seconds",
                "Age of the oldest writing transaction on the server, once much WAL is held.",
                lambda: progress.oldest_transaction_seconds,
            ),
            ("snapshots_running", "number", "Snapshots that are being read.", lambda: progress.snapshots_running),
            (
                "snapshot_done",
                "ratio",
                "How much of the pages of the running snapshot has been read: 0 to 1.",
                lambda: progress.snapshot_percent / 100,
            ),
            (
                "snapshot_transaction",
                "seconds",
                "Age of the oldest transaction that reads for a snapshot: what it sees can't be vacuumed.",
                lambda: progress.snapshot_transaction_seconds,
            ),
            ("resnapshot", "flag", "1 from a gap until all tables are read again.", lambda: bool(progress.resnapshot)),
            ("snapshot_braked", "flag", "1 while one waits for a busy source.", lambda: progress.is_snapshot_braked),
            ("epoch", "number", "Number of this run of the reader.", lambda: progress.epoch),
            (
                "safe_wal",
                "bytes",
                "WAL that may still be written before the server gives the slot up; -1 without a limit.",
                lambda: -1 if progress.safe_wal_bytes is None else progress.safe_wal_bytes,
            ),
        )
        for thing, unit, meaning, value in gauges:
            self.all.gauge(thing, unit, meaning).follow(value)


def _holds(progress: Progress, sink: str) -> Callable[[], float]:
    return lambda: float(progress.gate_holder == sink)
