"""`tidegate-reader --config pipeline.yaml`: one process, one pipeline, one of four exit codes.

0 told to stop · 1 start me again (a supervisor does, with back-off) · 2 wrong configuration · 3 a person decides.
Invariant: every failure ends here or in `service.py`, is logged once with code and remedy, and stands in the reader's
status and on /readyz before the process is gone.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tidegate.checkpoint.lean_redis import import_lean
from tidegate.config.apart import Checking
from tidegate.config.reloads import Reloads
from tidegate.errors import ExitCode
from tidegate.observability import logs
from tidegate_reader.failures import most_severe

_SECRETS = ("source", "kafka", "redis", "tracing")
"""Sections whose secrets this service reads."""


def main(arguments: Sequence[str] | None = None) -> None:
    sys.exit(_run(_parse(arguments)))


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tidegate-reader", description="Writes a PostgreSQL replication stream into one raw Kafka topic."
    )
    parser.add_argument("--config", required=True, metavar="PATH", help="the pipeline.yaml")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides", help="override one setting, a.b=c"
    )
    return parser.parse_args(arguments)


def _run(arguments: argparse.Namespace) -> ExitCode:
    logs.configure("reader")
    log = logs.get("reader")
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is something to read again
        check = partial(Checking, "reader", arguments.config, arguments.overrides, secrets=_SECRETS)
        checking = check()
        run = load_service()  # takes as long as the check, which is under way
        config = checking.outcome()
        logs.configure("reader", config.pipeline, level=config.log.level, style=config.log.format)
        return run(Reloads("reader", Path(arguments.config), config, lambda: check().outcome()), log)
    except Exception as error:
        failure = most_severe(error)
        log.failure("reader_failed", failure)
        return failure.exit_code


def load_service() -> Callable[[Reloads, logs.Log], ExitCode]:
    """Redis's client first, without what its other importers would bring: `tests/test_size.py` says what and why."""
    import_lean()
    from tidegate_reader import service

    return service.run


if __name__ == "__main__":
    main()
