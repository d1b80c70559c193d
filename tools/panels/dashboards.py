# ruff: noqa: E501 - a query reads best on one line
"""The dashboards: from the whole fleet to one lane, each row a question that an operator has.

Invariant: a panel uses only metrics that a service declares; `tests/ship` compares, and runs every query.
"""

from panels.model import P_OR_NONE, Dashboard, Kind, Panel, Row, Unit, query

P = 'pipeline=~"$pipeline"'
S = f'{P}, sink=~"$sink"'

READY = Panel(
    "Ready", "1 when no part that delivery needs is down.",
    (query(f"min by (pipeline) (tidegate_admin_pipeline_ready_ratio{{{P}}})", "{{pipeline}}"),),
    Unit.BOOLEAN, Kind.STAT, 6, 5, warn=1, alarm=1, low_is_bad=True, runbook="pipeline-not-ready",
)  # fmt: skip
TOTAL_SECONDS = Panel(
    "Age of the oldest unconfirmed change", "From its commit until the source may forget it; 0 when idle.",
    (query(f"max by (pipeline) (tidegate_admin_total_lag_seconds{{{P}}})", "{{pipeline}}"),),
    Unit.SECONDS, warn=60, alarm=600, runbook="lag-high",
)  # fmt: skip
LATENCY = Panel(
    "Commit to durable, 99th percentile", "Of the last second in which the lane delivered.",
    (query(f"max by (pipeline, sink) (tidegate_admin_lane_latency_p99_seconds{{{P}}})", "{{pipeline}} {{sink}}"),),
    Unit.SECONDS, warn=1, alarm=10, runbook="lag-high",
)  # fmt: skip
EVENTS = Panel(
    "Events delivered", "A second, by lane.",
    (query(f"sum by (pipeline, sink) (rate(tidegate_admin_lane_events_total{{{P}}}[$__rate_interval]))",
           "{{pipeline}} {{sink}}"),),
    Unit.A_SECOND,
)  # fmt: skip
LETTERS = Panel(
    "Dead letters", "New ones within the last five minutes.",
    (query(f"sum by (pipeline, sink) (increase(tidegate_admin_lane_dead_letters_total{{{P}}}[5m]))",
           "{{pipeline}} {{sink}}"),),
    Unit.COUNT, warn=1, runbook="dead-letters-growing",
)  # fmt: skip
WAL_HELD = Panel(
    "WAL held by the slot", "What the server keeps because Tidegate has not confirmed it.",
    (query(f"max by (pipeline) (tidegate_admin_wal_held_bytes{{{P}}})", "{{pipeline}}"),),
    Unit.BYTES, runbook="slot-dying",
)  # fmt: skip
HOLDER = Panel(
    "Gate held by", "The sink that the source waits for, while it waits for one.",
    (query(f"max by (pipeline, sink) (tidegate_reader_gate_held_flag{{{P}}})", "{{pipeline}} {{sink}}"),),
    Unit.BOOLEAN, Kind.STATES, warn=1, runbook="gate-held",
)  # fmt: skip

FLEET = Dashboard(
    "fleet", "Fleet", "Every pipeline at a glance: is it ready, does it keep up, is the source safe?",
    (
        Row("Is anything wrong?", (
            READY,
            Panel("Alerts firing", "By severity; also those that are of no pipeline: an admin service that is gone.",
                  (query(f'count by (severity) (ALERTS{{alertname=~"Tidegate.+", alertstate="firing", {P_OR_NONE}}}) or vector(0)',
                         "{{severity}}"),),
                  Unit.COUNT, Kind.STAT, 6, 5, warn=1),
            Panel("Lanes stopped for a person", "A lane that is LOST restarts only by a decision.",
                  (query("sum by (pipeline) (max by (pipeline, sink) "
                         f"(tidegate_processor_lane_lost{{{P}}} or tidegate_admin_lane_lost_flag{{{P}}}))",
                         "{{pipeline}}"),),
                  Unit.COUNT, Kind.STAT, 6, 5, warn=1, alarm=1, runbook="lane-lost"),
            Panel("Services up", "Scrapes that answer, of all of a kind.",
                  (query('avg by (job) (up{job=~"tidegate-.+"})', "{{job}}"),),
                  Unit.SHARE, Kind.STAT, 6, 5, warn=1, alarm=1, low_is_bad=True, runbook="reader-down"),
        )),
        Row("Does it keep up?", (TOTAL_SECONDS, LATENCY)),
        Row("What goes through?", (EVENTS, LETTERS)),
        Row("Is the source safe?", (WAL_HELD, HOLDER)),
    ),
)  # fmt: skip

PIPELINE = Dashboard(
    "pipeline", "Pipeline", "Where the delay sits: in the source, in the raw topic, in a lane, or before the gate.",
    (
        Row("Where does the delay sit?", (
            Panel("Delay by stage", "Together they are the WAL between the server's end and the slot.",
                  (query(f"max by (pipeline) (tidegate_admin_read_lag_bytes{{{P}}})", "{{pipeline}} not read yet"),
                   query(f"max by (pipeline, sink) (tidegate_admin_lane_lag_bytes{{{P}}})",
                         "{{pipeline}} in the raw topic, not in {{sink}}"),
                   query(f"max by (pipeline) (tidegate_admin_confirm_lag_bytes{{{P}}})",
                         "{{pipeline}} acked, not confirmed")),
                  Unit.BYTES, width=24, runbook="lag-high"),
            Panel("Age by stage", "How long the oldest change has been there; 0 when idle.",
                  (query(f"max by (pipeline) (tidegate_admin_read_lag_seconds{{{P}}})", "{{pipeline}} not read yet"),
                   query(f"max by (pipeline, sink) (tidegate_admin_lane_lag_seconds{{{P}}})", "{{pipeline}} {{sink}}")),
                  Unit.SECONDS, warn=60, runbook="lag-high"),
            HOLDER,
        )),
        Row("The gate", (
            Panel("Positions", "Bytes of WAL: what the server has, what is read, logged, and what it may forget.",
                  (query(f"max by (pipeline) (tidegate_reader_server_lsn{{{P}}}) - on (pipeline) "
                         f"max by (pipeline) (tidegate_reader_received_lsn{{{P}}})", "{{pipeline}} server − received"),
                   query(f"max by (pipeline) (tidegate_reader_received_lsn{{{P}}}) - on (pipeline) "
                         f"max by (pipeline) (tidegate_reader_produced_lsn{{{P}}})", "{{pipeline}} received − logged"),
                   query(f"max by (pipeline) (tidegate_reader_produced_lsn{{{P}}}) - on (pipeline) "
                         f"max by (pipeline) (tidegate_reader_confirmed_lsn{{{P}}})", "{{pipeline}} logged − confirmed")),
                  Unit.BYTES),
            TOTAL_SECONDS,
            Panel("From the server's end of WAL to the slot", "All stages together.",
                  (query(f"max by (pipeline) (tidegate_admin_total_lag_bytes{{{P}}})", "{{pipeline}}"),),
                  Unit.BYTES, width=24, runbook="lag-high"),
        )),
        Row("The reader", (
            Panel("Changes", "Into the raw topic, a second.",
                  (query(f"sum by (pipeline) (rate(tidegate_reader_produced_changes_total{{{P}}}[$__rate_interval]))",
                         "{{pipeline}}"),), Unit.A_SECOND, width=8),
            Panel("Bytes", "From the source and into the raw topic, a second.",
                  (query(f"sum by (pipeline) (rate(tidegate_reader_received_bytes_total{{{P}}}[$__rate_interval]))",
                         "{{pipeline}} received"),
                   query(f"sum by (pipeline) (rate(tidegate_reader_produced_bytes_total{{{P}}}[$__rate_interval]))",
                         "{{pipeline}} produced")), Unit.BYTES_A_SECOND, width=8),
            Panel("In flight", "Frames sent to Kafka and not acknowledged: a full window means that Kafka is slow.",
                  (query(f"max by (pipeline) (tidegate_reader_in_flight_bytes{{{P}}})", "{{pipeline}}"),),
                  Unit.BYTES, width=8),
            Panel("Messages and frames", "Replication messages received, frames made of them, a second.",
                  (query(f"sum by (pipeline) (rate(tidegate_reader_received_messages_total{{{P}}}[$__rate_interval]))",
                         "{{pipeline}} messages"),
                   query(f"sum by (pipeline) (rate(tidegate_reader_produced_frames_total{{{P}}}[$__rate_interval]))",
                         "{{pipeline}} frames")), Unit.A_SECOND, width=8),
            Panel("Epoch", "Rises by one at each start of the reader.",
                  (query(f"max by (pipeline) (tidegate_reader_epoch_number{{{P}}})", "{{pipeline}}"),),
                  Unit.COUNT, width=8, runbook="reader-flapping"),
            Panel("Messages without a position", "Non-transactional logical messages are counted, not delivered.",
                  (query(f"sum by (pipeline) (increase(tidegate_reader_dropped_messages_total{{{P}}}[5m]))",
                         "{{pipeline}}"),), Unit.COUNT, width=8),
        )),
        Row("What goes through?", (EVENTS, LATENCY)),
        Row("Traces", (
            Panel("Spans dropped", "Of sampled transactions: no collector has taken them. Nothing else suffers.",
                  (query(f"sum by (pipeline) (increase(tidegate_reader_dropped_spans_total{{{P}}}[5m]))",
                         "{{pipeline}} reader"),
                   query(f"max by (pipeline, sink) (tidegate_processor_lane_dropped_spans{{{P}}})",
                         "{{pipeline}} {{sink}}, since its start")), Unit.COUNT, width=24),
        )),
    ),
)  # fmt: skip

SOURCE = Dashboard(
    "source", "Source and slot", "What Tidegate costs the database, and how long the slot would live without it.",
    (
        Row("Is the source safe?", (
            WAL_HELD,
            Panel("WAL until the slot is lost", "What may still be written; no series where the server sets no limit.",
                  (query(f"min by (pipeline) (tidegate_admin_wal_safe_bytes{{{P}}}) or "
                         f"min by (pipeline) (tidegate_reader_safe_wal_bytes{{{P}}})", "{{pipeline}}"),),
                  Unit.BYTES, warn=1e9, alarm=1e8, low_is_bad=True, runbook="slot-dying"),
            Panel("Zone", "How much of what it may hold the slot holds: 0 green, 1 yellow, 2 red.",
                  (query(f"max by (pipeline) (tidegate_reader_wal_zone_number{{{P}}})", "{{pipeline}}"),),
                  Unit.COUNT, Kind.STATES, 6, 8, warn=1, alarm=2, runbook="slot-dying"),
            Panel("Slot lost", "1: the server has given it up, or has it no more; the reader ends with exit code 3.",
                  (query(f"max by (pipeline) (tidegate_admin_slot_lost_flag{{{P}}})", "{{pipeline}}"),),
                  Unit.COUNT, Kind.STATES, 6, 8, warn=1, alarm=1, runbook="slot-lost"),
            Panel("The slot dies in", "If WAL grows on as it did; -1 where it does not grow or has no limit.",
                  (query(f"min by (pipeline) (tidegate_reader_slot_dies_in_seconds{{{P}}})", "{{pipeline}}"),),
                  Unit.SECONDS, Kind.STAT, 6, 8, runbook="slot-dying"),
            Panel("Oldest open transaction", "The server keeps all WAL since its beginning; looked at once much is held.",
                  (query(f"max by (pipeline) (tidegate_reader_oldest_transaction_seconds{{{P}}})", "{{pipeline}}"),),
                  Unit.SECONDS, width=6, warn=600, alarm=3600, runbook="slot-dying"),
            Panel("WAL held, by the reader's own look", "And its course four hours on, if it goes on as in half an hour.",
                  (query(f"max by (pipeline) (tidegate_reader_wal_held_bytes{{{P}}})", "{{pipeline}}"),
                   query(f"clamp_min(max by (pipeline) (predict_linear(tidegate_reader_wal_held_bytes{{{P}}}[30m], "
                         "4 * 3600)), 0)", "{{pipeline}} in four hours")), Unit.BYTES, runbook="slot-dying"),
            Panel("Share of the limit used", "WAL held against what the server allows, where it sets a limit.",
                  (query(f"max by (pipeline) (tidegate_admin_wal_held_bytes{{{P}}}) / on (pipeline) "
                         f"(max by (pipeline) (tidegate_admin_wal_held_bytes{{{P}}}) + on (pipeline) "
                         f"max by (pipeline) (tidegate_admin_wal_safe_bytes{{{P}}}))", "{{pipeline}}"),),
                  Unit.SHARE, warn=0.5, alarm=0.8, runbook="slot-dying"),
        )),
        Row("Is the conversation alive?", (
            Panel("Heartbeats", "Written to the source, a minute: they keep a quiet database from holding WAL.",
                  (query(f"sum by (pipeline) (increase(tidegate_reader_written_heartbeats_total{{{P}}}[5m])) / 5",
                         "{{pipeline}}"),), Unit.PER_MINUTE, runbook="heartbeat-old"),
            Panel("Statuses", "Sent to the server, a second.",
                  (query(f"sum by (pipeline) (rate(tidegate_reader_sent_statuses_total{{{P}}}[$__rate_interval]))",
                         "{{pipeline}}"),), Unit.A_SECOND),
            Panel("Written to WAL by the server", "Bytes a second, by the end of its WAL.",
                  (query(f"max by (pipeline) (deriv(tidegate_reader_server_lsn{{{P}}}[5m]))", "{{pipeline}}"),),
                  Unit.BYTES_A_SECOND),
            Panel("Tables published", "Fewer than before: somebody changed the publication.",
                  (query(f"max by (pipeline) (tidegate_reader_published_tables{{{P}}})", "{{pipeline}}"),),
                  Unit.COUNT),
            Panel("Raw topic misconfigured", "Settings of it that the next start of a reader will refuse.",
                  (query(f"max by (pipeline) (tidegate_admin_raw_topic_wrong_settings{{{P}}})", "{{pipeline}}"),),
                  Unit.COUNT, Kind.STAT, height=8, warn=1, alarm=1, runbook="raw-topic-unfit"),
            Panel("Last look of the admin service", "The figures above are from then.",
                  (query(f"1000 * max by (pipeline) (tidegate_admin_last_look_seconds{{{P}}})", "{{pipeline}}"),),
                  Unit.TIME, Kind.STAT, height=8, runbook="admin-blind"),
        )),
    ),
)  # fmt: skip

DEAD_LETTERS = Dashboard(
    "dead-letters", "Dead letters", "Records that can never be delivered: how many, where, and since when.",
    (
        Row("How many?", (
            Panel("In the last 24 hours", "By sink.",
                  (query(f"sum by (pipeline, sink) (increase(tidegate_admin_lane_dead_letters_total{{{S}}}[24h]))",
                         "{{pipeline}} {{sink}}"),), Unit.COUNT, Kind.STAT, 12, 6, warn=1,
                  runbook="dead-letters-growing"),
            Panel("Share of events", "Dead letters against everything that the lane had to deliver.",
                  (query(f"sum by (pipeline, sink) (increase(tidegate_admin_lane_dead_letters_total{{{S}}}[5m])) / "
                         f"clamp_min(sum by (pipeline, sink) (increase(tidegate_admin_lane_events_total{{{S}}}[5m])) + "
                         f"sum by (pipeline, sink) (increase(tidegate_admin_lane_dead_letters_total{{{S}}}[5m])), 1e-9)",
                         "{{pipeline}} {{sink}}"),), Unit.SHARE, Kind.STAT, 12, 6, warn=0.0001, alarm=0.01,
                  runbook="dead-letters-growing"),
        )),
        Row("Since when?", (
            LETTERS,
            Panel("Of this run of the lane", "Begins at zero when the lane starts.",
                  (query(f"max by (pipeline, sink) (tidegate_processor_lane_dead_letters{{{S}}})",
                         "{{pipeline}} {{sink}}"),), Unit.COUNT),
            Panel("Events of this run of the lane", "To compare with.",
                  (query(f"max by (pipeline, sink) (tidegate_processor_lane_events{{{S}}})",
                         "{{pipeline}} {{sink}}"),), Unit.COUNT),
        )),
    ),
    variables=("pipeline", "sink"),
)  # fmt: skip
