"""How many writers a lane starts with. It changes only where the cursors of all agree.

| cursors                          | the lane runs with                                             |
| -------------------------------- | -------------------------------------------------------------- |
| none                             | one writer; if it is to have several, until it has a cursor    |
| of as many as are configured     | these                                                          |
| of another number, that agree    | the configured ones, once their cursors have been written      |
| of another number, that do not   | that number, up to the furthest of them                        |
| the same, of another raw topic   | that number; it is looked at again at the lane's next start    |

Invariant: the cursors of a new number are written in one transaction, and whoever had the old ones is fenced before.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidegate.config.load import parse_options
from tidegate.config.pipeline import PipelineConfig
from tidegate.config.sinks import SinkConfig, SinkType
from tidegate.contracts.cursor import Cursor
from tidegate.errors import ConfigError, Problem
from tidegate.observability import logs
from tidegate_processor.place import cursor_missing
from tidegate_processor.sinks.kafka_topics.config import DeliveryGuarantee, KafkaTopicsOptions
from tidegate_processor.sinks.registry import cursors_of
from tidegate_processor.sinks.shared.seated import GatheredProducer, agree
from tidegate_processor.starting import starting_offsets

LOCAL_SLOTS = 64
"""Of Spark in the driver's own process."""
_log = logs.get("processor")


@dataclass(frozen=True, slots=True)
class Start:
    starting: str
    """Where its query begins to read, in Spark's words."""
    writers: int = 1
    until: int | None = None
    """The raw offset at which it ends and is looked at again; at 0, as soon as it has a cursor."""


def start_of(config: PipelineConfig, name: str) -> Start:
    sink = config.sink(name)
    cursors = _all_there(cursors_of(config, sink), name)
    starting = starting_offsets(config, name, cursors)
    if not cursors:
        return Start(starting, until=None if sink.writers == 1 else 0)
    if len(cursors) == sink.writers:
        return Start(starting, sink.writers)
    if agree(cursors) and _set_writers(config, sink):
        _log.info("lane_writers_changed", sink=name, before=len(cursors), now=sink.writers)
        return Start(starting, sink.writers)
    _check_can_meet(sink)
    offsets = {cursor.next_offset for cursor in cursors}
    is_of_one_log = len({cursor.topic_id for cursor in cursors}) == 1 and len(offsets) > 1
    return Start(starting, len(cursors), max(offsets) if is_of_one_log else None)


def check(config: PipelineConfig) -> None:
    """What options of a sink do not go with several writers."""
    problems = [problem for sink in config.sinks if sink.writers > 1 for problem in _problems(sink)]
    if config.processor.master == "local" and sum(sink.writers for sink in config.sinks) > LOCAL_SLOTS:
        reason = f"each writer holds one of {LOCAL_SLOTS} slots, and those of a lane run at once"
        problems.append(
            Problem("sinks", "WRITERS_SLOTS", reason, "Give fewer lanes several writers, or use a cluster.")
        )
    if problems:
        raise ConfigError(
            "the configuration is refused: what does not go with several writers",
            code="CONFIG_INVALID",
            remedy="Mend what is listed.",
            problems=tuple(problems),
        )


def _problems(sink: SinkConfig) -> Iterator[Problem]:
    if sink.type is not SinkType.KAFKA_TOPICS:
        reason = "this kind of sink has one cursor, and several writers need one each"
        yield Problem(f"sinks.{sink.name}.writers", "WRITERS_SINK", reason, "Set writers: 1, or use kafka_topics.")
        return
    options, at = parse_options(sink, KafkaTopicsOptions), f"sinks.{sink.name}.options"
    if options.delivery is not DeliveryGuarantee.EXACTLY_ONCE:
        reason = "the cursors of several writers move in one Kafka transaction, and at_least_once has none"
        yield Problem(f"{at}.delivery", "WRITERS_UNSURE", reason, "Set delivery: exactly_once, or writers: 1.")
    if options.transaction_topic is not None:
        reason = "a COMMIT would be seen before the changes that other writers have not written yet"
        yield Problem(f"{at}.transaction_topic", "WRITERS_TRANSACTION_TOPIC", reason, "Remove it, or set writers: 1.")


def _all_there(cursors: Sequence[Cursor | None], sink: str) -> list[Cursor]:
    there = [cursor for cursor in cursors if cursor is not None]
    if len(there) < len(cursors):
        raise cursor_missing(sink, is_back=False)
    return there


def _check_can_meet(sink: SinkConfig) -> None:
    """Those of another number have to run once more, with what the sink is now."""
    if any(_problems(sink)):
        raise ConfigError(
            "the writers that the lane has had stand at several places, and what the sink is now has one writer only",
            code="WRITERS_APART",
            remedy="Set the sink's options back and writers: 1, and start the lane; when it runs with one writer, set "
            "the options as they are now.",
        )


def _set_writers(config: PipelineConfig, sink: SinkConfig) -> bool:
    """Whether they agree, now that nobody can move them any more."""
    producer = GatheredProducer(config, sink.name)
    try:
        cursor = producer.open()
        if cursor is None or not producer.agrees:
            return False
        producer.become(sink.writers, cursor)
        return True
    finally:
        producer.close()
