"""`tidegate-processor --config pipeline.yaml`: loads, runs, and says by its exit code what should happen next."""

import argparse
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from tidegate.config.load import load_pipeline
from tidegate.config.pipeline import PipelineConfig
from tidegate.config.reloads import Reloads
from tidegate.errors import ConfigError, ExitCode, classify
from tidegate.observability import logs
from tidegate.observability.tracing import check_installed
from tidegate_processor.pipeline import run
from tidegate_processor.sinks.registry import OPTIONS
from tidegate_processor.spark.session import check as check_session
from tidegate_processor.transforms.registry import check as check_transforms
from tidegate_processor.writers import check as check_writers

_SECRETS = ("kafka", "redis", "transforms", "sinks", "tracing", "processor")
"""Sections whose secrets this service reads; it knows nothing of the source."""


def main(arguments: Sequence[str] | None = None) -> None:
    sys.exit(_main(arguments))


def _main(arguments: Sequence[str] | None) -> int:
    options = _parser().parse_args(arguments)
    logs.configure("processor")
    log = logs.get("processor")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        config = _loaded(options)
        logs.configure("processor", config.pipeline, level=config.log.level, style=config.log.format)
        reloads = Reloads("processor", Path(options.config), config, lambda: _loaded(options))
        signal.signal(signal.SIGHUP, lambda *_: reloads.ask())
        return run(reloads, stop)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except Exception as error:
        log.failure("processor_failed", error)
        return classify(error).exit_code


def _loaded(options: argparse.Namespace) -> PipelineConfig:
    config = load_pipeline(options.config, options.set, option_models=OPTIONS, secrets=_SECRETS)
    check_transforms(config)
    check_writers(config)
    check_session(config)
    check_installed(config.tracing, "processor")
    return config


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tidegate-processor",
        description="One Spark lane per sink: verifies, decodes, routes, encodes, writes and acks raw frames.",
        epilog=f"Exit codes: {ExitCode.CLEAN} clean, {ExitCode.RETRY} restart me, "
        f"{ExitCode.CONFIGURATION} configuration, {ExitCode.LOST} a person must decide.",
    )
    parser.add_argument("--config", required=True, metavar="FILE", help="the pipeline's YAML file")
    parser.add_argument(
        "--set", action="append", default=[], metavar="PATH=VALUE", help="overrides one setting, e.g. log.level=debug"
    )
    return parser
