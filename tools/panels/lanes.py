# ruff: noqa: E501 - a query reads best on one line
"""The dashboard of lanes and sinks: is each alive, how far behind, how fast?"""

from panels.dashboards import EVENTS, LETTERS, P, S
from panels.model import Dashboard, Kind, Panel, Row, Unit, query

LANES = Dashboard(
    "lanes", "Lanes and sinks", "Each sink's lane: is it alive, how far behind, how fast, how often did it start again?",
    (
        Row("Alive?", (
            Panel("Heartbeat fresh", "A lane whose heartbeat is stale is being started again.",
                  (query(f"min by (pipeline, sink) (tidegate_processor_lane_up{{{S}}})", "{{pipeline}} {{sink}}"),),
                  Unit.BOOLEAN, Kind.STATES, warn=1, alarm=1, low_is_bad=True, runbook="lane-stalled"),
            Panel("Paused", "By a person, until a person resumes it; the source keeps WAL for it if it is required.",
                  (query(f"max by (pipeline, sink) (tidegate_processor_lane_paused{{{S}}})", "{{pipeline}} {{sink}}"),),
                  Unit.BOOLEAN, Kind.STATES, warn=1, runbook="lane-stalled"),
            Panel("Configuration refused", "The file on disk is refused; the one before stays in force.",
                  (query(f"max by (pipeline) (tidegate_processor_config_refused{{{P}}})", "{{pipeline}} processor"),
                   query(f"max by (pipeline) (tidegate_reader_config_refused{{{P}}})", "{{pipeline}} reader")),
                  Unit.BOOLEAN, Kind.STATES, warn=1),
            Panel("Restarts", "Within five minutes.",
                  (query(f"sum by (pipeline, sink) (clamp_min(delta(tidegate_processor_lane_restarts{{{S}}}[5m]), 0))",
                         "{{pipeline}} {{sink}}"),), Unit.COUNT, warn=1, alarm=5, runbook="lane-stalled"),
        )),
        Row("Behind?", (
            Panel("Behind, time", "How long the oldest change has been in the raw topic and not in the sink.",
                  (query(f"max by (pipeline, sink) (tidegate_admin_lane_lag_seconds{{{S}}})", "{{pipeline}} {{sink}}"),
                   query(f"max by (pipeline, sink) (tidegate_processor_lane_lag_seconds{{{S}}})",
                         "{{pipeline}} {{sink}} by the processor")),
                  Unit.SECONDS, warn=60, alarm=600, runbook="lane-stalled"),
            Panel("Behind, bytes", "WAL in the raw topic and not in the sink.",
                  (query(f"max by (pipeline, sink) (tidegate_admin_lane_lag_bytes{{{S}}})", "{{pipeline}} {{sink}}"),),
                  Unit.BYTES, runbook="lane-stalled"),
            Panel("Frames behind the reader", "Offsets of the raw topic.",
                  (query(f"max by (pipeline) (tidegate_reader_raw_offset{{{P}}}) - on (pipeline) group_right "
                         f"max by (pipeline, sink) (tidegate_processor_lane_raw_offset{{{S}}})",
                         "{{pipeline}} {{sink}}"),), Unit.COUNT),
            Panel("Frames until retention", "Between where a lane reads and where the raw topic begins.",
                  (query(f"max by (pipeline, sink) (tidegate_processor_lane_raw_offset{{{S}}}) - on (pipeline) group_left "
                         f"max by (pipeline) (tidegate_reader_raw_beginning_offset{{{P}}})", "{{pipeline}} {{sink}}"),),
                  Unit.COUNT, runbook="retention-near"),
            Panel("Acked position", "WAL position up to which the sink has everything, its rise a second.",
                  (query(f"max by (pipeline, sink) (deriv(tidegate_processor_lane_safe_lsn_bytes{{{S}}}[5m]))",
                         "{{pipeline}} {{sink}}"),), Unit.BYTES_A_SECOND),
        )),
        Row("Fast?", (
            Panel("Commit to durable, median", "Of the last second in which the lane delivered; none if that was a minute ago.",
                  (query(f"max by (pipeline, sink) (tidegate_processor_lane_latency_p50_seconds{{{S}}})",
                         "{{pipeline}} {{sink}}"),), Unit.SECONDS, width=8),
            Panel("Commit to durable, 99th percentile", "Of the last second in which the lane delivered; none if that was a minute ago.",
                  (query(f"max by (pipeline, sink) (tidegate_processor_lane_latency_p99_seconds{{{S}}})",
                         "{{pipeline}} {{sink}}"),), Unit.SECONDS, width=8, warn=1, alarm=10),
            Panel("Bytes delivered", "A second; a restart of the lane begins at zero.",
                  (query(f"sum by (pipeline, sink) (rate(tidegate_processor_lane_delivered_bytes{{{S}}}"
                         "[$__rate_interval]))", "{{pipeline}} {{sink}}"),), Unit.BYTES_A_SECOND, width=8),
            EVENTS, LETTERS,
            Panel("Where a lane's time goes", "Seconds a second; what is left it waits for frames.",
                  (query(f"max by (pipeline, sink) (deriv(tidegate_processor_lane_write_seconds{{{S}}}[5m]))",
                         "{{pipeline}} {{sink}} makes events"),
                   query(f"max by (pipeline, sink) (deriv(tidegate_processor_lane_commit_seconds{{{S}}}[5m]))",
                         "{{pipeline}} {{sink}} commits")), Unit.SECONDS),
            Panel("In micro-batches", "1 while the lane runs by the trigger batch; one with auto does while it is far behind.",
                  (query(f"max by (pipeline, sink) (tidegate_processor_lane_batch_trigger{{{S}}})",
                         "{{pipeline}} {{sink}}"),), Unit.BOOLEAN, Kind.STATES),
            Panel("Frames taken", "A second; a restart of the lane begins at zero.",
                  (query(f"sum by (pipeline, sink) (rate(tidegate_processor_lane_frames{{{S}}}"
                         "[$__rate_interval]))", "{{pipeline}} {{sink}}"),), Unit.A_SECOND),
        )),
    ),
    variables=("pipeline", "sink"),
)  # fmt: skip
