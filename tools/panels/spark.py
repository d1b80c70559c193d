# ruff: noqa: E501 - a query reads best on one line
"""The dashboard of Spark and of the services' processes: what is used, by which part, and against which limit?"""

from panels.dashboards import P
from panels.model import Dashboard, Kind, Panel, Row, Unit, query

SPARK = Dashboard(
    "spark", "Spark and processes", "What the services use: the reader, Spark's driver, its JVM, the workers of lanes, the admin service.",
    (
        Row("Spark", (
            Panel("Lanes alive", "Of those that the processor runs.",
                  (query(f"sum by (pipeline) (tidegate_processor_lane_up{{{P}}}) / on (pipeline) "
                         f"count by (pipeline) (tidegate_processor_lane_up{{{P}}})", "{{pipeline}}"),),
                  Unit.SHARE, width=8, warn=1, alarm=0.5, low_is_bad=True, runbook="lane-stalled"),
            Panel("Lanes started again", "Since the process began.",
                  (query(f"sum by (pipeline, sink) (tidegate_processor_lane_restarts{{{P}}})", "{{pipeline}} {{sink}}"),),
                  Unit.COUNT, width=8, runbook="lane-stalled"),
            Panel("Executors", "In pods of their own; 0 where lanes run in the processor.",
                  (query(f"max by (pipeline) (tidegate_processor_spark_executors_number{{{P}}})", "{{pipeline}}"),),
                  Unit.COUNT, Kind.STAT, 8, 8, runbook="processor-down"),
            Panel("Heap of the JVM", "Used, and what it may use: a used part that stays near the limit wants a larger processor.heap.",
                  (query(f"max by (pipeline) (tidegate_processor_spark_heap_bytes{{{P}}})", "{{pipeline}} used"),
                   query(f"max by (pipeline) (tidegate_processor_spark_heap_limit_bytes{{{P}}})", "{{pipeline}} limit")),
                  Unit.BYTES),
            Panel("Collecting garbage", "Share of the JVM's time.",
                  (query(f"max by (pipeline) (rate(tidegate_processor_spark_collecting_seconds{{{P}}}[$__rate_interval]))",
                         "{{pipeline}}"),), Unit.SHARE, warn=0.05, alarm=0.2),
        )),
        Row("The processor, by part", (
            Panel("Memory by part", "Resident. Together they are what the container's limit counts.",
                  (query(f"max by (pipeline, part) (tidegate_processor_part_resident_bytes{{{P}}})", "{{pipeline}} {{part}}"),),
                  Unit.BYTES),
            Panel("CPU by part", "Cores.",
                  (query(f"max by (pipeline, part) (rate(tidegate_processor_part_cpu_seconds{{{P}}}[$__rate_interval]))",
                         "{{pipeline}} {{part}}"),), Unit.CORES),
        )),
        Row("Every service", (
            Panel("CPU", "Cores, of the process itself.",
                  (query('sum by (job, instance) (rate(process_cpu_seconds_total{job=~"tidegate-.+"}[$__rate_interval]))',
                         "{{job}} {{instance}}"),), Unit.CORES),
            Panel("Memory", "Resident, of the process itself.",
                  (query('sum by (job, instance) (process_resident_memory_bytes{job=~"tidegate-.+"})',
                         "{{job}} {{instance}}"),), Unit.BYTES),
            Panel("Open files", "And sockets.",
                  (query('sum by (job, instance) (process_open_fds{job=~"tidegate-.+"})', "{{job}} {{instance}}"),),
                  Unit.COUNT),
            Panel("Running since", "A young process has started again.",
                  (query('1000 * max by (job, instance) (process_start_time_seconds{job=~"tidegate-.+"})',
                         "{{job}} {{instance}}"),), Unit.TIME, Kind.STAT, height=8, runbook="reader-flapping"),
        )),
    ),
)  # fmt: skip
