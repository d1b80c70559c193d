"""What PostgreSQL's refusals of a reading mean. Its texts may quote values and are never passed on.

| SQLSTATE | kind |
| --- | --- |
| 42501, no right to read | ConfigError |
| 42501 by `check_enable_rls`: a policy hides rows, and `row_security` is off | ConfigError |
| 22023, 42704 at SET TRANSACTION SNAPSHOT | the exported snapshot is gone |
| 55P03: locked for long | TransientError, without end |
| 42703, 42P01: column or table is not there (any more) | the table has changed |
| 22*, 42883, 42601, 42804: filter that does not fit its column | ConfigError |
| anything else | TransientError |
"""

from tidegate.clock import unix_microseconds
from tidegate.contracts.request import LaneOutcome, Result
from tidegate.contracts.snapshot_request import identity_of
from tidegate.errors import ConfigError, DecodeError, TidegateError, TransientError

EXPORT_GONE = "SNAPSHOT_EXPORT_GONE"
TABLE_CHANGED = "SNAPSHOT_TABLE_CHANGED"
TABLE_LOCKED = "SNAPSHOT_TABLE_LOCKED"
TABLE_LONG = "SNAPSHOT_TABLE_LONG"
TOO_OLD = "SNAPSHOT_TOO_OLD"
WINDOW_LONG = "SNAPSHOT_WINDOW_LONG"
_POLICIES = "check_enable_rls"


def transaction_too_old() -> TransientError:
    return TransientError(
        "a piece of a table took longer to read than a transaction may",
        code="SNAPSHOT_TOO_OLD",
        remedy="It is read again, in smaller pieces.",
    )


def table_too_long(table: str) -> TransientError:
    return TransientError(
        f"{table} took longer to read than a transaction may, and can't be read in pieces",
        code="SNAPSHOT_TABLE_LONG",
        remedy="Raise snapshot.max_transaction_age, or give it a replica identity; then resume the snapshot. "
        "Before PostgreSQL 14 every table is one piece.",
    )


def table_changed(table: str) -> TransientError:
    return TransientError(
        f"table {table} was rewritten or dropped while it was read",
        code="SNAPSHOT_TABLE_CHANGED",
        remedy="Nothing: it is looked at again.",
    )


def window_too_long() -> TransientError:
    return TransientError(
        "more was changed while a piece of a table was read than a lane should have to remember",
        code="SNAPSHOT_WINDOW_LONG",
        remedy="It is read again, in smaller pieces. Before PostgreSQL 14 a table is one piece: read it when less is "
        "written.",
    )


def moved_too_long(table: str) -> TransientError:
    return TransientError(
        f"what moved in {table} while it was read has to be read in one transaction, and each took too long or met too "
        "many changes",
        code="SNAPSHOT_MOVED_LONG",
        remedy="Resume the snapshot when less is written to the source: this last pass alone is made again. If it took "
        "longer than snapshot.max_transaction_age, raise that.",
    )


def forgotten() -> ConfigError:
    return ConfigError(
        "how far snapshots were is not known any more: the topic that keeps it was lost, or the pipeline begun anew",
        code="SNAPSHOT_FORGOTTEN",
        remedy="Nothing for what snapshot.mode and sinks with `from: snapshot` ask for: it is read again from its "
        "beginning. Ask again for others, and cancel what had been cancelled.",
    )


def malformed(value: bytes, error: DecodeError) -> LaneOutcome | None:
    """Nobody waits for an answer to something that is not even sealed."""
    identity = identity_of(value)
    if identity is None:
        return None
    remedy = "Ask with the admin service of the same release as the reader."
    return LaneOutcome(identity, Result.REFUSED, unix_microseconds(), error.code, error.message, remedy)


def beside_a_standby() -> ConfigError:
    return ConfigError(
        "beside the stream of a standby no snapshot can be taken: it takes a message written at the source",
        code="SNAPSHOT_STANDBY",
        remedy="Point the source at the primary, or take the snapshot while the slot is made (snapshot.mode).",
    )


def refused_reading(state: str, function: str, about: str) -> TidegateError:
    """`function`: of the server, which alone tells a policy from a right. `about`: what is read."""
    if state == "42501" and function == _POLICIES:
        return ConfigError(
            f"a policy decides which rows the role sees of {about}: part of it would be missing",
            code="SNAPSHOT_POLICY",
            remedy="ALTER ROLE … BYPASSRLS, as a superuser; or leave the table out of the publication. Then resume the "
            "snapshot, or start the reader again.",
        )
    if state == "42501":
        return ConfigError(
            f"the role may not read {about}",
            code="SNAPSHOT_DENIED",
            remedy="GRANT SELECT on every published table, each as a whole and a partition too (and USAGE on its "
            "schema), to the role.",
        )
    if state in ("42703", "42P01", "3F000"):
        return TransientError(
            f"a table has changed while it was read (SQLSTATE {state})",
            code="SNAPSHOT_TABLE_CHANGED",
            remedy="Nothing: it is looked at again.",
        )
    if state == "55P03":
        return TransientError(
            "a table of a snapshot is locked by somebody who changes it",
            code="SNAPSHOT_TABLE_LOCKED",
            remedy="It is tried again until the lock is gone; look for the transaction that holds it.",
        )
    if state[:2] == "22" or state in ("42883", "42601", "42804", "42846"):
        return ConfigError(
            f"a filter of a snapshot does not fit its column (SQLSTATE {state})",
            code="SNAPSHOT_FILTER",
            remedy="Compare the column with a value of its type.",
        )
    return TransientError(
        f"a reader of rows was refused with SQLSTATE {state}",
        code="SNAPSHOT_READING",
        remedy="See the server's log; it is tried again.",
    )
