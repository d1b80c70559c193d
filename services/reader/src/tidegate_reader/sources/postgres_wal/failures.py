"""What PostgreSQL's refusals mean for us: who can mend it decides the kind of the error.

| SQLSTATE or text | kind |
| --- | --- |
| authentication, rights, unknown role or database, pg_hba | ConfigError |
| slot in use, too many connections, shutting down, broken link | TransientError |
| slot gone or invalidated, publication gone | StreamError |
| anything else | TransientError: the restarts are bounded, nothing is confirmed |
"""

from tidegate.errors import ConfigError, StreamError, TidegateError, TransientError

LOST_REMEDY = (
    "The WAL between the sinks and the server is gone. Decide: begin anew (drop the slot, `tidegate pipelines forget`, "
    "take a new snapshot), or restore the source. Nothing is created again silently."
)
# libpq gives no SQLSTATE for a refused connection, only the server's text (or its translation, then it is transient).
_FOR_A_PERSON = (
    "password authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "does not exist",
    "is not permitted to log in",
    "permission denied",
    "must be superuser or replication role",
    "certificate",
    "server does not support SSL",
)


STREAM = "the stream"
_READING = ("START_REPLICATION", STREAM)


def refused_connection(text: str) -> TidegateError:
    first = text.strip().splitlines()[0] if text.strip() else "no answer"
    if any(each in first for each in _FOR_A_PERSON):
        return ConfigError(
            f"PostgreSQL refused the connection: {first}",
            code="SOURCE_REFUSED",
            remedy="Mend host, database, user, password, tls or pg_hba.conf.",
        )
    return TransientError(
        f"PostgreSQL cannot be reached: {first}",
        code="SOURCE_UNREACHABLE",
        remedy="Check that the server is up and reachable; the reader tries again.",
    )


def refused_command(command: str, sqlstate: str | None, text: str) -> TidegateError:
    """`text` is the primary message; it is looked at, never passed on, because it may quote values."""
    state = sqlstate or "?????"
    told = f"{command} was refused with SQLSTATE {state}"
    if command in _READING and ("can no longer" in text or state in ("55000", "58P01")):
        return StreamError(f"{told}: the slot is invalidated", code="SLOT_LOST", remedy=LOST_REMEDY)
    if state == "42704" and "publication" in text:
        return publication_missing()
    if state == "42704":
        return StreamError(f"{told}: the slot is gone", code="SLOT_MISSING", remedy=LOST_REMEDY)
    if state in ("55006", "42710"):
        return TransientError(
            f"{told}: another process reads or makes the slot",
            code="SLOT_IN_USE",
            remedy="Stop the other reader, or wait until the server notices that it is gone.",
        )
    if state[:2] in ("28", "42", "3D"):
        return ConfigError(f"{told}", code="SOURCE_REFUSED", remedy="Check the role's rights (LOGIN, REPLICATION).")
    return TransientError(told, code="SOURCE_FAILED", remedy="See the server's log; the reader tries again.")


def publication_missing() -> StreamError:
    return StreamError(
        "a publication of this stream does not exist at this point of the WAL, so its changes are not sent",
        code="PUBLICATION_MISSING",
        remedy="Changes since then are not in the stream. Create the publication again and take a new snapshot.",
    )


def link_broken() -> TransientError:
    return TransientError(
        "the replication link broke", code="SOURCE_LINK_BROKEN", remedy="The reader starts again from what is acked."
    )


def silent() -> TransientError:
    return TransientError(
        "nothing was heard from the server for too long",
        code="SOURCE_SILENT",
        remedy="The link is probably dead; the reader connects again.",
    )
