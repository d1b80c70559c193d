"""Where the changes go: one entry a sink, each with a lane of its own.

Invariant: kinds of sinks are a closed set. What a sink takes is what its routes take and no filter of its lane leaves
out; `PipelineConfig.lane` is the sink with the pipeline's transforms before its own.
"""

from typing import Any

from pydantic import Field, ValidationInfo, field_validator

from tidegate.config.base import Many, Model
from tidegate.config.problems import refuse
from tidegate.config.schema_changes import SchemaChanges
from tidegate.config.tables import TablePattern
from tidegate.config.transforms import Transform, passes
from tidegate.config.values import SinkType as SinkType
from tidegate.config.values import StartFrom as StartFrom
from tidegate.config.values import ToastPolicy
from tidegate.config.values import Trigger as Trigger
from tidegate.events import Operation

NAME_PATTERN = r"^[a-z][a-z0-9_-]{0,31}$"


class Route(Model):
    tables: Many[TablePattern] = Field(min_length=1, max_length=1_000, description="`schema.table`, with `*`.")
    operations: Many[Operation] = Field(
        tuple(Operation), min_length=1, description="Operations that pass. Default: all of them."
    )

    def matches(self, schema: str, table: str, operation: str) -> bool:
        return operation in self.operations and any(pattern.matches(schema, table) for pattern in self.tables)


class SinkConfig(Model):
    name: str = Field(pattern=NAME_PATTERN, description="Unique in the file; names the lane, its cursor and its ack.")
    type: SinkType = Field(description="The kind of sink.")
    required: bool = Field(
        True, description="The source forgets a change only when every required sink has it. false: best effort."
    )
    trigger: Trigger = Field(
        Trigger.REALTIME,
        description="`realtime` delivers in milliseconds, `batch` in micro-batches, for less CPU an event; `auto` is "
        "`realtime`, and `batch` while the lane is more than half a minute behind.",
    )
    writers: int = Field(
        1,
        ge=1,
        le=16,
        description="Side by side, under the trigger `batch`: each delivers its share of the keys, and keeps a core "
        "busy. Only for sinks that keep their cursor in the brokers' transactions (`kafka_topics`).",
    )
    start_from: StartFrom = Field(
        StartFrom.EARLIEST,
        alias="from",
        description="Where a new sink begins: `earliest`, where the log does; `now`, at its end; `snapshot`, at its end"
        " too, and then the rows of its tables are read beside the stream. All sinks that take these tables get them.",
    )
    routes: Many[Route] = Field(
        (), max_length=1_000, description="A change passes if any route takes it. Empty: everything passes."
    )
    transforms: Many[Transform] = Field((), max_length=100, description="After the transforms of the pipeline.")
    toast: ToastPolicy = Field(
        ToastPolicy.MARK,
        description="Values stored out of line (TOAST) that an update left alone, which the server does not send: "
        "`mark` them as unchanged; write the `previous` value, as far as this lane has seen it (under the trigger "
        "`realtime` only); or `require_full`: published tables whose updates may not be sent whole are refused at the "
        "start, and such a row that comes later is a dead letter.",
    )
    schema_changes: SchemaChanges = Field(
        SchemaChanges(), description="What follows when a table changes its shape, by what has changed."
    )
    # Kept as written: the processor's registry knows the model, the other services need none of it.
    options: dict[str, Any] = Field(default_factory=dict, repr=False, description="Options of this kind of sink.")

    @field_validator("writers", mode="after")
    @classmethod
    def _gather_in_time(cls, writers: int, info: ValidationInfo) -> int:
        if writers > 1 and info.data.get("trigger", Trigger.REALTIME) is not Trigger.BATCH:
            raise refuse(
                code="WRITERS_TRIGGER",
                reason="several writers meet where a micro-batch ends, and a real-time batch lasts an hour",
                remedy="Set trigger: batch for this sink, or writers: 1.",
            )
        if writers > 1 and info.data.get("type", SinkType.KAFKA_TOPICS) is not SinkType.KAFKA_TOPICS:
            raise refuse(
                code="WRITERS_SINK",
                reason="this kind of sink has one cursor, and several writers need one each",
                remedy="Set writers: 1, or use kafka_topics.",
            )
        return writers

    @field_validator("toast", mode="after")
    @classmethod
    def _remembered_by_who_comes_next(cls, toast: ToastPolicy, info: ValidationInfo) -> ToastPolicy:
        if toast is ToastPolicy.PREVIOUS and info.data.get("trigger", Trigger.REALTIME) is not Trigger.REALTIME:
            raise refuse(
                code="TOAST_PREVIOUS_TRIGGER",
                reason="a micro-batch goes to whichever worker is free, and the next one knows nothing of its rows",
                remedy="Set trigger: realtime for this sink, or toast: mark or require_full.",
            )
        return toast

    def takes(self, schema: str, table: str, operation: str) -> bool:
        is_routed = not self.routes or any(route.matches(schema, table, operation) for route in self.routes)
        return is_routed and passes(self.transforms, schema, table, operation)
