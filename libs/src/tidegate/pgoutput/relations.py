"""What the server has said about relations and types, and whose word it is.

Invariant: what a streamed transaction announces is seen only by that transaction until it commits: the server keeps
"schema sent" per top-level transaction and promotes it only then, so a map without scopes is poisoned by an abort.
"""

import hashlib
from collections.abc import Mapping

from tidegate.errors import StreamError
from tidegate.pgoutput.messages import Relation, Type


class RelationMap:
    """Latest Relation by its id, latest Type by its OID; `xid` is the streamed block's top-level transaction."""

    def __init__(self) -> None:
        self._relations: dict[int, Relation] = {}
        self._types: dict[int, Type] = {}
        self._scopes: dict[int, RelationMap] = {}

    def learn(self, message: Relation | Type, *, xid: int | None = None) -> None:
        scope = self if xid is None else self._scopes.setdefault(xid, RelationMap())
        if isinstance(message, Relation):
            scope._relations[message.relation_id] = message
        else:
            scope._types[message.type_oid] = message

    def relation(self, relation_id: int, *, xid: int | None = None) -> Relation:
        scope = self._scopes.get(xid) if xid is not None else None
        found = scope._relations.get(relation_id) if scope is not None else None
        found = found or self._relations.get(relation_id)
        if found is None:
            raise StreamError(
                f"a change of relation {relation_id}, which was never described",
                code="RELATION_UNKNOWN",
                remedy="The schema section of the frame is incomplete: re-feed the pipeline from the slot.",
            )
        return found

    def types(self, *, xid: int | None = None) -> Mapping[int, Type]:
        scope = self._scopes.get(xid) if xid is not None else None
        return self._types if scope is None else {**self._types, **scope._types}

    def version(self, relation_id: int, *, xid: int | None = None) -> str:
        return schema_version(self.relation(relation_id, xid=xid), self.types(xid=xid))

    def promote(self, xid: int) -> None:
        """The streamed transaction committed (or was prepared): its word is everybody's now."""
        if (scope := self._scopes.pop(xid, None)) is not None:
            self._relations.update(scope._relations)
            self._types.update(scope._types)

    def drop(self, xid: int) -> None:
        """The whole streamed transaction aborted. Subtransactions share the top level's scope and do not end it."""
        self._scopes.pop(xid, None)


def schema_version(relation: Relation, types: Mapping[int, Type]) -> str:
    """Equal if and only if Relation and its Types say the same, on every machine and for ever: 32 hex digits."""
    digest = hashlib.blake2b(digest_size=16)
    _feed(digest, relation.relation_id, relation.schema, relation.name, relation.replica_identity)
    for column in relation.columns:
        described = types.get(column.type_oid)
        schema, name = (described.schema, described.name) if described is not None else ("", "")
        _feed(digest, column.flags, column.name, column.type_oid, column.typmod, schema, name)
    return digest.hexdigest()


def _feed(digest: "hashlib.blake2b", *fields: str | int) -> None:
    # Each field with its length before it, so that no two lists of fields run together into the same bytes.
    for field in fields:
        raw = str(field).encode()
        digest.update(b"%d:%b" % (len(raw), raw))
