"""The numbers of this run in one place: stages write them, status and metrics read them. Nothing is decided by them."""

from dataclasses import dataclass, field

from tidegate.clock import unix_microseconds
from tidegate.contracts.status import Failure, ReaderStatus, State
from tidegate.errors import TidegateError


@dataclass(slots=True)
class Progress:
    pipeline: str
    pid: int
    state: State = State.STARTING
    started: int = field(default_factory=unix_microseconds)
    failure: Failure | None = None
    generation: str = ""
    epoch: int = 0
    server_lsn: int = 0
    received_lsn: int = 0
    raw_offset: int = -1
    raw_beginning: int = 0
    produced_lsn: int = 0
    confirmed_lsn: int = 0
    gate_holder: str | None = None
    frames: int = 0
    changes: int = 0
    bytes: int = 0
    in_flight_bytes: int = 0
    wal_held_bytes: int = 0
    safe_wal_bytes: int | None = None
    published_tables: int = 0
    wal_zone: int = 0
    slot_dies_in_seconds: float | None = None
    oldest_transaction_seconds: float = 0.0
    snapshots_running: int = 0
    snapshot_percent: float = 0.0
    snapshot_transaction_seconds: float = 0.0
    is_snapshot_braked: bool = False
    resnapshot: str = ""

    def failed(self, error: TidegateError) -> None:
        self.state = State.FAILED
        self.failure = Failure(type(error).__name__, error.code, error.message, error.remedy)

    def status(self) -> ReaderStatus:
        return ReaderStatus(
            pipeline=self.pipeline,
            state=self.state,
            pid=self.pid,
            time=unix_microseconds(),
            started=self.started,
            failure=self.failure,
            generation=self.generation,
            epoch=self.epoch,
            server_lsn=self.server_lsn,
            received_lsn=self.received_lsn,
            raw_offset=self.raw_offset,
            produced_lsn=self.produced_lsn,
            confirmed_lsn=self.confirmed_lsn,
            gate_holder=self.gate_holder,
            frames=self.frames,
            changes=self.changes,
            bytes=self.bytes,
            in_flight_bytes=self.in_flight_bytes,
            wal_held_bytes=self.wal_held_bytes,
            safe_wal_bytes=self.safe_wal_bytes,
            resnapshot=self.resnapshot,
        )
