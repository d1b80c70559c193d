"""The way into a target, and the lane's cursor there for who asks without loading what decodes rows."""

from tidegate.config.load import parse_options
from tidegate.config.pipeline import PipelineConfig
from tidegate.config.sinks import SinkConfig
from tidegate.contracts.cursor import Cursor
from tidegate_processor.sinks.pg_table.config import PgTableOptions
from tidegate_processor.sinks.pg_table.state import SinkState
from tidegate_processor.sinks.shared.pg_connection import Connection
from tidegate_processor.sinks.shared.postgres import connect, mapped


def connect_to_target(config: PipelineConfig, sink: SinkConfig) -> Connection:
    options = parse_options(sink, PgTableOptions)
    return connect(options.dsn, options.password, options.tls, f"tidegate {config.pipeline} {sink.name}")


def state_of(connection: Connection, config: PipelineConfig, sink: SinkConfig) -> SinkState:
    return SinkState(connection, parse_options(sink, PgTableOptions).state_schema, config, sink)


def table_cursor(config: PipelineConfig, sink: SinkConfig) -> Cursor | None:
    connection = connect_to_target(config, sink)
    try:
        with mapped("read the lane's cursor"):
            return state_of(connection, config, sink).look()
    finally:
        connection.close()
