"""A real server's changes as frames, without a reader: pgoutput asked for by SQL, frames cut where a shape changes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg
from kit.made_frames import frame_of

from tidegate.contracts.frame import Frame, OpenTransaction
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.messages import Begin, Commit, Message, Relation, Type

# As the reader pins them: they decide what a value looks like.
_SESSION = (
    "SET client_encoding = 'UTF8'; SET DateStyle = 'ISO'; SET IntervalStyle = 'postgres'; SET TimeZone = 'UTC'; "
    "SET bytea_output = 'hex'; SET extra_float_digits = 3"
)
_CHANGES = (
    "SELECT data FROM pg_logical_slot_get_binary_changes(%s, NULL, NULL, 'proto_version', '1', "
    "'publication_names', 'everything')"
)


@dataclass
class PgoutputSource:
    link: psycopg.Connection
    slot: str
    _types: dict[int, Type] = field(default_factory=dict)
    _relations: dict[int, Relation] = field(default_factory=dict)

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.link.execute(statement.encode())

    def texts(self, query: str) -> list[tuple[str | None, ...]]:
        return self.link.execute(query.encode()).fetchall()

    def frames(self) -> Iterator[Frame]:
        """Of what was committed since."""
        messages: list[Message] = []
        opened: OpenTransaction | None = None
        begin, ordinal = Begin.__new__(Begin), 0
        for (raw,) in self.link.execute(_CHANGES, [self.slot]).fetchall():
            message = decode_message(bytes(raw))
            if isinstance(message, Type):
                self._types[message.type_oid] = message
            elif isinstance(message, Relation):
                if self._relations.get(message.relation_id) not in (None, message) and messages:
                    yield self._frame(messages, opened)
                    opened = OpenTransaction(begin.xid, begin.commit_lsn, begin.commit_time, ordinal)
                    messages = []
                self._relations[message.relation_id] = message
            else:
                messages.append(message)
                if isinstance(message, Begin):
                    begin, ordinal = message, 0
                elif isinstance(message, Commit):
                    yield self._frame(messages, opened)
                    messages, opened = [], None
                else:
                    ordinal += 1

    def _frame(self, messages: list[Message], opened: OpenTransaction | None) -> Frame:
        described: list[Message] = [*self._types.values(), *self._relations.values()]
        return frame_of(described, messages, opened)  # type: ignore[arg-type]


@contextmanager
def pgoutput_source(dsn: str, slot: str) -> Iterator[PgoutputSource]:
    """All that happens in this database from now on."""
    with psycopg.connect(dsn, autocommit=True) as link:
        link.execute(_SESSION)
        link.execute("CREATE PUBLICATION everything FOR ALL TABLES")
        link.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
        try:
            yield PgoutputSource(link, slot)
        finally:
            link.execute("SELECT pg_drop_replication_slot(%s)", [slot])
