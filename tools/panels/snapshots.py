# ruff: noqa: E501 - a query reads best on one line
"""The dashboard of snapshots: are tables being read, how fast, and at what cost to the source?"""

from panels.dashboards import WAL_HELD, P
from panels.model import Dashboard, Kind, Panel, Row, Unit, query

SNAPSHOTS = Dashboard(
    "snapshots", "Snapshots", "Rows that were there before: how far they are read, how fast, and what that costs the source.",
    (
        Row("How far?", (
            Panel("Being read", "Snapshots at this moment; those that are paused are not among them.",
                  (query(f"max by (pipeline) (tidegate_reader_snapshots_running_number{{{P}}})", "{{pipeline}}"),),
                  Unit.COUNT, Kind.STAT, 6, 6, runbook="snapshot-stuck"),
            Panel("Read so far", "Of the pages of the running snapshot; the last one's, when none runs.",
                  (query(f"max by (pipeline) (tidegate_reader_snapshot_done_ratio{{{P}}})", "{{pipeline}}"),),
                  Unit.SHARE, width=12, height=6, runbook="snapshot-stuck"),
            Panel("Left", "At the pace of the last ten minutes; no value where nothing moves.",
                  (query(f"max by (pipeline) ((1 - tidegate_reader_snapshot_done_ratio{{{P}}}) / "
                         f"deriv(tidegate_reader_snapshot_done_ratio{{{P}}}[10m]))", "{{pipeline}}"),),
                  Unit.SECONDS, Kind.STAT, 6, 6),
        )),
        Row("How fast?", (
            Panel("Rows", "Durable in the raw topic, a second.",
                  (query(f"sum by (pipeline) (rate(tidegate_reader_snapshot_rows_total{{{P}}}[$__rate_interval]))",
                         "{{pipeline}}"),), Unit.A_SECOND),
            Panel("Bytes", "Of these rows, a second.",
                  (query(f"sum by (pipeline) (rate(tidegate_reader_snapshot_bytes_total{{{P}}}[$__rate_interval]))",
                         "{{pipeline}}"),), Unit.BYTES_A_SECOND),
        )),
        Row("Behind a loss?", (
            Panel("Gaps announced", "Losses of slot or WAL that this reader has answered with a snapshot.",
                  (query(f"max by (pipeline) (tidegate_reader_announced_gaps_total{{{P}}})", "{{pipeline}}"),),
                  Unit.COUNT, Kind.STAT, 6, 6, warn=1, alarm=1, runbook="slot-lost"),
            Panel("Tables read again", "1 from a gap until all rows are in the raw topic again.",
                  (query(f"max by (pipeline) (tidegate_reader_resnapshot_flag{{{P}}})", "{{pipeline}}"),),
                  Unit.BOOLEAN, Kind.STATES, 12, 6, runbook="slot-lost"),
            Panel("Gaps passed", "By lanes, since they began: what lay there came by the snapshot, or not at all.",
                  (query(f"max by (pipeline, sink) (tidegate_processor_lane_gaps{{{P}}})", "{{pipeline}} {{sink}}"),),
                  Unit.COUNT, Kind.STAT, 6, 6, runbook="slot-lost"),
        )),
        Row("At what cost?", (
            Panel("Oldest reading transaction", "What it sees can't be vacuumed: snapshot.max_transaction_age ends it.",
                  (query(f"max by (pipeline) (tidegate_reader_snapshot_transaction_seconds{{{P}}})", "{{pipeline}}"),),
                  Unit.SECONDS, warn=600, alarm=1800, runbook="snapshot-stuck"),
            Panel("Held by its brakes", "1 while it waits for a busy source, or for a replica that is behind.",
                  (query(f"max by (pipeline) (tidegate_reader_snapshot_braked_flag{{{P}}})", "{{pipeline}}"),),
                  Unit.BOOLEAN, Kind.STATES, runbook="snapshot-stuck"),
            WAL_HELD,
            Panel("Changes beside it", "Into the raw topic, a second: they must not suffer.",
                  (query(f"sum by (pipeline) (rate(tidegate_reader_produced_changes_total{{{P}}}[$__rate_interval]))",
                         "{{pipeline}}"),), Unit.A_SECOND),
            Panel("Behind, time", "Lanes read the rows too: how long the oldest change waits for its sink.",
                  (query(f"max by (pipeline, sink) (tidegate_admin_lane_lag_seconds{{{P}}})", "{{pipeline}} {{sink}}"),),
                  Unit.SECONDS, warn=60, alarm=600, runbook="lane-stalled"),
        )),
    ),
)  # fmt: skip
