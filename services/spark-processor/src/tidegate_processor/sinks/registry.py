"""Every sink by its name in the configuration. A new sink is one entry of `_KINDS`."""

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import BaseModel

from tidegate.config.pipeline import PipelineConfig
from tidegate.config.sinks import SinkConfig, SinkType
from tidegate.contracts.cursor import Cursor
from tidegate.errors import StreamError
from tidegate.events import Operation
from tidegate_processor.seat import Seat
from tidegate_processor.sinks.base import Sink
from tidegate_processor.sinks.file.config import FileOptions
from tidegate_processor.sinks.file.place import file_cursor
from tidegate_processor.sinks.kafka_topics.config import KafkaTopicsOptions
from tidegate_processor.sinks.pg_table.config import PgTableOptions
from tidegate_processor.sinks.shared.group_cursor import group_cursor
from tidegate_processor.sinks.stdout.config import StdoutOptions
from tidegate_processor.speaking import Speak, nobody_listens
from tidegate_processor.transformed_sink import TransformedSink, is_transformed


@dataclass(frozen=True, slots=True)
class _Terms:
    """On which a sink is made."""

    speak: Speak
    seat: Seat | None = None
    whole: bool = False


@dataclass(frozen=True, slots=True)
class _Kind:
    options: type[BaseModel]
    make: Callable[[PipelineConfig, SinkConfig, "_Terms"], Sink]
    cursor: Callable[[PipelineConfig, SinkConfig, int], Cursor | None]
    """Of one of its writers."""
    needs_one_machine: bool = False
    """It writes where it runs, so its lane can't come up elsewhere."""


def make_sink(
    config: PipelineConfig, sink: SinkConfig, speak: Speak = nobody_listens, *, seat: Seat | None = None
) -> Sink:
    """Behind the transforms of its lane, if it has any. `speak` is called now and then where a frame may take long.
    `seat` for one of several writers."""
    return _made(config, sink, _Terms(speak, seat))


def make_whole_sink(config: PipelineConfig, sink: SinkConfig) -> Sink:
    """For the driver: it fences all writers that the lane has, and its cursor is about all of them."""
    return _made(config, sink, _Terms(nobody_listens, whole=True))


def _made(config: PipelineConfig, sink: SinkConfig, terms: _Terms) -> Sink:
    lane = config.lane(sink.name)
    made = _KINDS[sink.type].make(config, lane, terms)
    _check_declared(made, lane)
    return TransformedSink(made, lane) if is_transformed(lane) else made


def cursor_of(config: PipelineConfig, sink: SinkConfig) -> Cursor | None:
    """The committed one, without fencing anybody: it may be old when it is returned, so it is a hint. For the driver,
    which loads no kernels."""
    return _KINDS[sink.type].cursor(config, sink, 0)


def cursors_of(config: PipelineConfig, sink: SinkConfig) -> list[Cursor | None]:
    """Those of all writers that the lane has had at last; none of a lane without a cursor."""
    first = cursor_of(config, sink)
    if first is None:
        return []
    return [first, *(_KINDS[sink.type].cursor(config, sink, writer) for writer in range(1, first.writers))]


def needs_one_machine(sink: SinkConfig) -> bool:
    return _KINDS[sink.type].needs_one_machine


def keeps_cursor_in_group(sink: SinkConfig) -> bool:
    """In the lane's consumer group, which Kafka forgets in time."""
    return _KINDS[sink.type].cursor is group_cursor


def _check_declared(sink: Sink, lane: SinkConfig) -> None:
    """Before a row is read: a delete that is passed over leaves a row for ever, and nobody would know."""
    lacking = {Operation.DELETE: not sink.capabilities.deletes, Operation.TRUNCATE: not sink.capabilities.truncates}
    for operation, is_lacking in lacking.items():
        if is_lacking and (not lane.routes or any(operation in route.operations for route in lane.routes)):
            raise StreamError(
                f"sinks of the kind {lane.type} know no {operation}, and the routes of this one let them through",
                code="SINK_OPERATION_UNDECLARED",
                remedy=f"Name the operations in its routes without {operation}, or choose another kind of sink. "
                "Nothing was delivered or acked.",
            )


# Imported when it is asked for: a lane pays for the client of its own sink only.
def _kafka_topics(config: PipelineConfig, sink: SinkConfig, terms: _Terms) -> Sink:
    from tidegate_processor.sinks.kafka_topics.writer import KafkaTopicsSink

    return KafkaTopicsSink(config, sink, terms.seat, whole=terms.whole)


def _stdout(config: PipelineConfig, sink: SinkConfig, terms: _Terms) -> Sink:
    from tidegate_processor.sinks.stdout.writer import StdoutSink

    return StdoutSink(config, sink, terms.speak)


def _file(config: PipelineConfig, sink: SinkConfig, _: _Terms) -> Sink:
    from tidegate_processor.sinks.file.writer import FileSink

    return FileSink(config, sink)


def _pg_table(config: PipelineConfig, sink: SinkConfig, terms: _Terms) -> Sink:
    from tidegate_processor.sinks.pg_table.writer import PgTableSink

    return PgTableSink(config, sink, terms.speak)


def _pg_table_cursor(config: PipelineConfig, sink: SinkConfig, _: int) -> Cursor | None:
    from tidegate_processor.sinks.pg_table.place import table_cursor

    return table_cursor(config, sink)


def _file_cursor(config: PipelineConfig, sink: SinkConfig, _: int) -> Cursor | None:
    return file_cursor(config, sink)


_KINDS = {
    SinkType.KAFKA_TOPICS: _Kind(KafkaTopicsOptions, _kafka_topics, group_cursor),
    SinkType.STDOUT: _Kind(StdoutOptions, _stdout, group_cursor, needs_one_machine=True),
    SinkType.FILE: _Kind(FileOptions, _file, _file_cursor, needs_one_machine=True),
    SinkType.PG_TABLE: _Kind(PgTableOptions, _pg_table, _pg_table_cursor),
}

OPTIONS: dict[str, type[BaseModel]] = {name: kind.options for name, kind in _KINDS.items()}
