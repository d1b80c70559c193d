"""One file a pipeline: read, merged with environment and command line, checked, and refused with every mistake at once.

Invariant: what `load_pipeline` returns is complete (derived names filled in) and holds references to secrets, never
secrets. Nothing here opens a connection or imports a client.
"""

from tidegate.config.base import Many, Model
from tidegate.config.epoch import config_epoch, lane_epoch
from tidegate.config.load import load_pipeline, parse_options, pipeline_from
from tidegate.config.pipeline import PipelineConfig
from tidegate.config.problems import refuse
from tidegate.config.secret import Secret

__all__ = [
    "Many",
    "Model",
    "PipelineConfig",
    "Secret",
    "config_epoch",
    "lane_epoch",
    "load_pipeline",
    "parse_options",
    "pipeline_from",
    "refuse",
]
