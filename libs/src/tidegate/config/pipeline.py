"""One pipeline: a source, a raw topic, sinks. The shape of `pipeline.yaml`."""

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from tidegate.config.base import Address, Duration, HttpAddress, Many, Model, Size, size
from tidegate.config.kafka import KafkaConfig, RawTopic
from tidegate.config.problems import refuse
from tidegate.config.redis import RedisConfig
from tidegate.config.sinks import NAME_PATTERN, SinkConfig
from tidegate.config.snapshot import SnapshotConfig
from tidegate.config.source import PostgresSource
from tidegate.config.spark import SparkSettings
from tidegate.config.tracing import TracingConfig
from tidegate.config.transforms import Transform
from tidegate.config.values import LogFormat, LogLevel
from tidegate.contracts import names


class LogConfig(Model):
    level: LogLevel = Field(LogLevel.INFO, description="The least that is written.")
    format: LogFormat = Field(LogFormat.AUTO, description="`auto`: text on a terminal, JSON elsewhere.")


class ReaderConfig(Model):
    http: HttpAddress = Field(Address("127.0.0.1", 8081), description="/healthz, /readyz and /metrics.")
    look_every: Duration = Field(
        timedelta(seconds=5),
        ge=timedelta(milliseconds=100),
        le=timedelta(minutes=1),
        description="How often slot, publications, raw topic and held WAL are looked at.",
    )
    slot_wait: Duration = Field(
        timedelta(seconds=15),
        le=timedelta(minutes=10),
        description="How long a start waits for a slot that somebody else holds, before it ends and is started again.",
    )
    gap_wait: Duration = Field(
        timedelta(seconds=15),
        ge=timedelta(seconds=6),
        le=timedelta(minutes=10),
        description="How long a start that finds a gap waits for lanes to say again what they have, before it believes"
        " it. Lanes do so every five seconds.",
    )


class ProcessorConfig(Model):
    http: HttpAddress = Field(Address("127.0.0.1", 8082), description="/healthz, /readyz and /metrics.")
    heap: Size = Field(size("768MiB"), ge=256 * 2**20, le=256 * 2**30, description="Heap of the Spark driver's JVM.")
    master: str = Field(
        "local",
        max_length=500,
        pattern=r"^(local|local-cluster\[[0-9]+,[0-9]+,[0-9]+\]|yarn|(spark|k8s)://[^\s@]+)$",
        description="Where lanes run: `local`, in the driver's own process, or a cluster as Spark names it. Executors "
        "need the driver's Python packages and environment; each real-time lane holds one of their slots.",
    )
    spark_ui: HttpAddress | None = Field(
        None, description="Spark's own page. It asks for no password, and costs memory. Default: none."
    )
    spark: SparkSettings = Field(
        default_factory=dict,
        max_length=200,
        description="Further settings of Spark, as Spark names them. Secrets among them are `${env:NAME}` or "
        "`${file:/path}`.",
    )


class AdminConfig(Model):
    http: HttpAddress = Field(Address("127.0.0.1", 8080), description="REST API, page, health and metrics.")


def _not_ours(value: str) -> str:
    if value == "tidegate":
        raise refuse(
            code="PIPELINE_RESERVED",
            reason="topics named tidegate.… are Tidegate's own",
            remedy="Give the pipeline the name of what it carries.",
        )
    return value


class PipelineConfig(Model):
    pipeline: Annotated[str, AfterValidator(_not_ours)] = Field(
        pattern=NAME_PATTERN, description="Name of the pipeline, part of topic names and Redis keys."
    )
    source: PostgresSource = Field(description="Where changes come from.")
    kafka: KafkaConfig = Field(description="The brokers of the raw topic.")
    raw_topic: RawTopic = Field(RawTopic(), description="The log that every change goes through.")
    redis: RedisConfig = Field(description="Where sinks acknowledge.")
    sinks: Many[SinkConfig] = Field(min_length=1, max_length=64, description="Where changes go.")
    transforms: Many[Transform] = Field(
        (), max_length=100, description="Applied to every change, before the sink's own."
    )
    snapshot: SnapshotConfig = Field(SnapshotConfig(), description="How rows that were there before are read.")
    reader: ReaderConfig = Field(ReaderConfig(), description="The reader's own settings.")
    processor: ProcessorConfig = Field(ProcessorConfig(), description="The processor's own settings.")
    admin: AdminConfig = Field(AdminConfig(), description="The admin API's own settings.")
    log: LogConfig = Field(LogConfig(), description="Logs of all services.")
    tracing: TracingConfig | None = Field(
        None, description="Spans of sampled transactions, from the source to every sink. Default: none."
    )

    @model_validator(mode="before")
    @classmethod
    def _derive_names(cls, data: Any) -> Any:  # as it came from the file
        name = data.get("pipeline") if isinstance(data, dict) else None
        if not isinstance(name, str) or not re.fullmatch(NAME_PATTERN, name, re.ASCII):
            return data
        identifier = "tidegate_" + name.replace("-", "_")
        derived = {
            ("raw_topic", "name"): names.raw_topic(name),
            ("source", "slot", "name"): identifier,
            ("source", "publication", "name"): identifier,
        }
        for path, value in derived.items():
            data = _with_default(data, path, value)
        return data

    @property
    def publication_names(self) -> tuple[str, ...]:
        publication = self.source.publication
        return (publication.name,) if publication.manage else publication.names

    @property
    def required_sinks(self) -> tuple[str, ...]:
        return tuple(sink.name for sink in self.sinks if sink.required)

    @property
    def document(self) -> dict[str, Any]:
        """As plain JSON, without secrets: to be compared, also where the models are not."""
        return self.model_dump(mode="json", by_alias=True)

    def sink(self, name: str) -> SinkConfig:
        return next(sink for sink in self.sinks if sink.name == name)

    def lane(self, name: str) -> SinkConfig:
        """The sink as its lane serves it: the pipeline's transforms before its own."""
        sink = self.sink(name)
        return sink.model_copy(update={"transforms": (*self.transforms, *sink.transforms)})


def _with_default(data: dict[str, Any], path: tuple[str, ...], value: str) -> dict[str, Any]:
    """Fills an absent leaf. Whatever is not a mapping on the way is left for its own validator to refuse."""
    head, *rest = path
    inner = data.get(head)
    if not rest:
        return data if inner not in (None, "") else {**data, head: value}
    if head in data and not isinstance(inner, dict):
        return data
    if head == "source" and inner is None:
        return data
    return {**data, head: _with_default(inner or {}, tuple(rest), value)}
