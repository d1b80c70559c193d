"""Sinks that require whole rows (`toast: require_full`), and published tables whose updates may not be sent whole.

An update that leaves a value alone which is stored out of line is sent without it, unless the old row is sent: identity
FULL. Each such change would be a dead letter, so it is refused before the start, all tables at once. Of a partitioned
table it is each leaf's identity that decides, also where its changes are published as the root's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidegate.config.values import ToastPolicy
from tidegate.preflight.ask import Ask
from tidegate.preflight.findings import Finding, caution, refusal
from tidegate.preflight.tables import LEAVES, MAX_NAMED_TABLES, UPDATED, wanted_tables
from tidegate.quoting import qualified

if TYPE_CHECKING:
    from tidegate.config.pipeline import PipelineConfig
    from tidegate.config.sinks import SinkConfig

# A value may leave its row if its type has no fixed length and its storage is another than plain.
_MAY_BE_PARTIAL = f"""
SELECT DISTINCT published.nspname, published.relname, n.nspname, c.relname
FROM ({UPDATED}) published
{LEAVES}WHERE c.relreplident <> 'f'
  AND EXISTS (SELECT FROM pg_attribute a
              WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                AND a.attlen = -1 AND a.attstorage <> 'p')
ORDER BY 3, 4, 1, 2
"""  # noqa: S608  # made of constants
_UPDATE, _FILTER = "UPDATE", "filter"


async def examine_whole_rows(ask: Ask, config: PipelineConfig) -> list[Finding]:
    requiring = [sink for sink in config.sinks if sink.toast is ToastPolicy.REQUIRE_FULL]
    if not requiring:
        return []
    tables = await ask(_MAY_BE_PARTIAL, wanted_tables(config.source.publication))
    return [finding for sink in requiring for finding in _findings(sink, config, tables)]


def _findings(sink: SinkConfig, config: PipelineConfig, tables: list[tuple[str, str, str, str]]) -> Iterator[Finding]:
    publication = config.source.publication
    # A managed publication is listed as it was asked for; a given one as its events are called.
    as_leaves = publication.manage and not publication.publish_via_partition_root
    taken = list(
        dict.fromkeys(
            (schema, table)
            for *root, schema, table in tables
            if _takes_updates(sink, *((schema, table) if as_leaves else root))
        )
    )
    # A filter may leave the table out; that is decided where rows are, so it is told and refuses nothing.
    is_filtered = any(each.type == _FILTER for each in (*config.transforms, *sink.transforms))
    told = caution if is_filtered else refusal
    path = f"sinks.{sink.name}.toast"
    for schema, table in taken[:MAX_NAMED_TABLES]:
        name = qualified(schema, table)
        yield told(
            path,
            code="TOAST_IDENTITY",
            reason=f"updates of {name} are not sent whole: its replica identity is not FULL",
            remedy=f"ALTER TABLE {name} REPLICA IDENTITY FULL; or set toast: mark for this sink, or take the table out "
            "of its routes.",
        )
    if len(taken) > MAX_NAMED_TABLES:
        more = f"updates of {len(taken) - MAX_NAMED_TABLES} more tables are not sent whole"
        yield told(path, code="TOAST_IDENTITY", reason=more, remedy="See pg_class.relreplident.")


def _takes_updates(sink: SinkConfig, schema: str, table: str) -> bool:
    """As `Route.matches`, which a configuration that another process has checked comes without."""
    return not sink.routes or any(
        _UPDATE in route.operations and any(pattern.matches(schema, table) for pattern in route.tables)
        for route in sink.routes
    )
