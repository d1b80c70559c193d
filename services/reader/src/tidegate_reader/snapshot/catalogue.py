"""What the catalogue says of a published table: how its rows are described on the stream, and where they lie.

Invariant: the Relation and Type messages made here are, byte for byte, those that pgoutput sends for the same table, so
a row of a snapshot and a change of the same row have one schema version. Asked inside the transaction that reads.
"""

import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.pgoutput.encode import encode_message
from tidegate.pgoutput.messages import Column, Relation, ReplicaIdentity, Type
from tidegate.quoting import literal
from tidegate_reader.shapes import FIRST_USER_OID, Shape
from tidegate_reader.snapshot.pages import Heap

Rows = list[tuple[str | None, ...]]
Ask = Callable[[str], Coroutine[None, None, Rows]]

_ROW_FILTERS = 150_000
"""Server version from which publications have column lists and row filters."""
_GENERATED_LISTED = 180_000
"""From here on the list names the generated columns that are published, before it could not."""
_CATALOGUE = "pg_catalog"


@dataclass(frozen=True, slots=True)
class Published:
    """A table as the publications have it."""

    relation_id: int
    schema: str
    name: str
    columns: tuple[str, ...] | None
    """None: all that are not generated."""
    has_generated: bool
    """Generated columns may be among them."""
    where: str | None
    """SQL of the server's own making."""
    tells_updates: bool
    """They are published, so a row that moves is in the stream."""
    version: str
    """Of what columns and filter follow from: as long as it stays, they do."""


@dataclass(frozen=True, slots=True)
class TableShape:
    shape: Shape
    columns: tuple[str, ...]
    has_key: bool


async def published(ask: Ask, publications: Sequence[str], server_version: int) -> list[Published]:
    """Every table once; of a partitioned one and its partitions the topmost that is published."""
    has_limits = server_version >= _ROW_FILTERS
    limits = "to_json(p.attnames), p.rowfilter" if has_limits else "NULL, NULL"
    names = ", ".join(map(literal, publications))
    rows = await ask(
        f"SELECT c.oid, n.nspname, c.relname, {limits}, u.pubupdate, {_VERSION.format(names=names)}"  # noqa: S608 quoted
        " FROM pg_publication_tables p JOIN pg_publication u ON u.pubname = p.pubname"
        " JOIN pg_namespace n ON n.nspname = p.schemaname JOIN pg_class c ON c.relnamespace = n.oid"
        f" AND c.relname = p.tablename WHERE p.pubname IN ({names}) ORDER BY 2, 3"
    )
    found: dict[int, Published] = {}
    for oid, schema, name, columns, where, updates, version in rows:
        listed = None if columns is None else tuple(json.loads(columns))
        has_generated = server_version >= _GENERATED_LISTED
        table = Published(
            int(oid or 0), schema or "", name or "", listed, has_generated, where, updates == "t", version or ""
        )
        before = found.get(table.relation_id)
        found[table.relation_id] = table if before is None else _either(before, table)
    below = await _partitions(ask, list(found))
    return [table for table in found.values() if table.relation_id not in below]


async def still_published(ask: Ask, table: Published, publications: Sequence[str], server_version: int) -> Published:
    """As it is now: columns come, go and are renamed while a large table is read. What is not published any more is
    read as it was."""
    names = ", ".join(map(literal, publications))
    version = _VERSION.format(names=names)
    rows = await ask(f"SELECT {version} FROM pg_class c WHERE c.oid = {table.relation_id}")  # noqa: S608 quoted
    if not rows or rows[0][0] == table.version:
        return table
    listed = await published(ask, publications, server_version)
    return next((each for each in listed if each.relation_id == table.relation_id), table)


async def table_shape(ask: Ask, table: Published) -> TableShape | None:
    """None: it is not there any more."""
    rows = await ask(_SHAPE.format(oid=table.relation_id))
    if not rows:
        return None
    described = json.loads(rows[0][0] or "")
    listed = described["columns"] or []
    wanted = [each for each in listed if _is_sent(each, table)]
    columns = tuple(Column(int(each["key"]), each["name"], each["type"], each["typmod"]) for each in wanted)
    relation = Relation(
        table.relation_id,
        _namespace(described["schema"]),
        described["name"],
        ReplicaIdentity(described["identity"]),
        columns,
    )
    types = await _types(ask, [column.type_oid for column in columns])
    shape = Shape(table.relation_id, relation.schema, relation.name, encode_message(relation), types)
    return TableShape(shape, tuple(column.name for column in columns), any(column.is_key for column in columns))


async def heaps(ask: Ask, relation_id: int) -> tuple[list[Heap], int]:
    """Where its rows lie, and about how many they are."""
    rows = await ask(_HEAPS.format(oid=relation_id))
    found = [
        Heap(int(oid or 0), schema or "", name or "", int(filenode or 0), int(pages or 0), has_toast == "t")
        for oid, schema, name, filenode, pages, has_toast, _ in rows
    ]
    return found, sum(max(0, int(float(row[6] or 0))) for row in rows)


async def filenode_and_pages(ask: Ask, heap: Heap) -> tuple[int, int]:
    """Zero: it is not there any more."""
    rows = await ask(_PAGES.format(oid=heap.oid))
    return (int(rows[0][0] or 0), int(rows[0][1] or 0)) if rows else (0, 0)


async def is_there(ask: Ask, relation_id: int) -> bool:
    return bool(await ask(f"SELECT FROM pg_class WHERE oid = {relation_id}"))


async def name_of(ask: Ask, heap: Heap) -> tuple[str, str]:
    """Schema and table, as they are called now."""
    rows = await ask(_NAME.format(oid=heap.oid))
    return (rows[0][0] or "", rows[0][1] or "") if rows else (heap.schema, heap.name)


def _is_sent(column: Mapping[str, object], table: Published) -> bool:
    if column["generated"] and not (table.has_generated and table.columns):
        return False
    return table.columns is None or column["name"] in table.columns


def _either(one: Published, other: Published) -> Published:
    """A row is published if any of the publications has it."""
    where = f"({one.where}) OR ({other.where})" if one.where and other.where else None
    return replace(one, where=where, tells_updates=one.tells_updates and other.tells_updates)


async def _partitions(ask: Ask, oids: Sequence[int]) -> set[int]:
    """Of these, all that lie below another one."""
    if not oids:
        return set()
    rows = await ask(_BELOW.format(oids=", ".join(map(str, oids))))
    return {int(row[0] or 0) for row in rows}


async def _types(ask: Ask, oids: Sequence[int]) -> tuple[bytes, ...]:
    wanted = list(dict.fromkeys(oid for oid in oids if oid >= FIRST_USER_OID))
    if not wanted:
        return ()
    rows = await ask(_TYPES.format(oids=", ".join(map(str, wanted))))
    named = {int(oid or 0): (schema or "", name or "") for oid, schema, name in rows}
    return tuple(encode_message(Type(oid, _namespace(named[oid][0]), named[oid][1])) for oid in wanted if oid in named)


def _namespace(schema: str) -> str:
    return "" if schema == _CATALOGUE else schema


_VERSION = """concat_ws('/',
    (SELECT string_agg(a.attnum || ' ' || a.attname, ',' ORDER BY a.attnum) FROM pg_attribute a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
    (SELECT string_agg(v.oid || ' ' || v.xmin::text, ',' ORDER BY v.oid) FROM pg_publication v
        WHERE v.pubname IN ({names})),
    (SELECT string_agg(r.prpubid || ' ' || r.xmin::text, ',' ORDER BY r.prpubid) FROM pg_publication_rel r
        WHERE r.prrelid = c.oid))"""
# Old servers lack columns of these catalogues, so rows are looked at as JSON where they differ.
_SHAPE = """
SELECT json_build_object('schema', n.nspname, 'name', c.relname, 'identity', c.relreplident, 'columns', (
    SELECT json_agg(json_build_object('name', a.attname, 'type', a.atttypid::int8, 'typmod', a.atttypmod,
        'generated', coalesce(to_jsonb(a)->>'attgenerated', '') <> '',
        'key', c.relreplident = 'f' OR coalesce(a.attnum = ANY (k.attnums), false)) ORDER BY a.attnum)
    FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN LATERAL (
    SELECT (string_to_array(i.indkey::text, ' ')::int2[])[1:coalesce((to_jsonb(i)->>'indnkeyatts')::int, i.indnatts)]
        AS attnums
    FROM pg_index i WHERE i.indrelid = c.oid AND i.indisvalid AND CASE c.relreplident
        WHEN 'd' THEN i.indisprimary AND i.indimmediate WHEN 'i' THEN i.indisreplident ELSE false END LIMIT 1
) k ON true WHERE c.oid = {oid}
"""
_TREE = """
WITH RECURSIVE tree AS (
    SELECT oid, relkind FROM pg_class WHERE oid {roots}
    UNION ALL
    SELECT c.oid, c.relkind FROM tree t JOIN pg_inherits i ON i.inhparent = t.oid JOIN pg_class c ON c.oid = i.inhrelid
    WHERE t.relkind = 'p'
)"""
_HEAPS = (
    _TREE.replace("{roots}", "= {oid}")
    + """
SELECT c.oid, n.nspname, c.relname, pg_relation_filenode(c.oid),
    (pg_relation_size(c.oid) + current_setting('block_size')::int - 1) / current_setting('block_size')::int,
    c.reltoastrelid <> 0, c.reltuples
FROM tree JOIN pg_class c ON c.oid = tree.oid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' ORDER BY 2, 3
"""
)
_PAGES = """
SELECT pg_relation_filenode(oid),
    (pg_relation_size(oid) + current_setting('block_size')::int - 1) / current_setting('block_size')::int
FROM pg_class WHERE oid = {oid}
"""
_NAME = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = {oid}
"""
_BELOW = (
    _TREE.replace("{roots}", "IN ({oids}) AND relkind = 'p'")
    + """
SELECT DISTINCT i.inhrelid FROM tree JOIN pg_inherits i ON i.inhrelid = tree.oid JOIN tree p ON p.oid = i.inhparent
"""
)
_TYPES = """
WITH RECURSIVE base AS (
    SELECT oid AS named, oid, typtype, typbasetype, typname, typnamespace FROM pg_type WHERE oid IN ({oids})
    UNION ALL
    SELECT b.named, t.oid, t.typtype, t.typbasetype, t.typname, t.typnamespace
    FROM base b JOIN pg_type t ON t.oid = b.typbasetype WHERE b.typtype = 'd'
)
SELECT b.named, n.nspname, b.typname FROM base b JOIN pg_namespace n ON n.oid = b.typnamespace WHERE b.typtype <> 'd'
"""
