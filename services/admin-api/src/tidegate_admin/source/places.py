"""Which configurations of this service mean the same server and the same database.

Invariant: a slot's name is unique on a server, a publication's in a database; alone it names neither.
"""

from collections.abc import Iterable

from tidegate.config.pipeline import PipelineConfig


def on_server_of(config: PipelineConfig, pipelines: Iterable[PipelineConfig]) -> list[PipelineConfig]:
    place = (config.source.host, config.source.port)
    return [each for each in pipelines if (each.source.host, each.source.port) == place]


def on_database_of(config: PipelineConfig, pipelines: Iterable[PipelineConfig]) -> list[PipelineConfig]:
    return [each for each in on_server_of(config, pipelines) if each.source.database == config.source.database]
