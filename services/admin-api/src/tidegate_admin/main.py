"""`tidegate-admin --config pipeline.yaml`: loads, binds, serves, and says by its exit code what should happen next."""

import argparse
import asyncio
import gc
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import uvicorn

from tidegate.config.base import Address
from tidegate.errors import ConfigError, ExitCode, classify
from tidegate.observability import logs
from tidegate_admin.access import Access
from tidegate_admin.app import create_app
from tidegate_admin.config import AdminSettings, Told, load_settings
from tidegate_admin.connections import BoundedHeads, Patience
from tidegate_admin.follower import Follower
from tidegate_admin.pipelines.watch import Watch
from tidegate_admin.security.limits import Limits
from tidegate_admin.security.tokens import TOKENS_VARIABLE

_BACKLOG = 128
_SWITCH_SECONDS = 0.001
"""A thread that asks SQLite gives way at each row; with 5 ms it would wait so long each time while a look is judged."""
_GRACE_SECONDS = 5
_REQUESTS_AT_ONCE = 1_000
"""Most of them streams of events that wait."""


def main(arguments: Sequence[str] | None = None) -> None:
    sys.exit(_main(arguments))


def _main(arguments: Sequence[str] | None) -> int:
    options = _parser().parse_args(arguments)
    logs.configure("admin")
    log = logs.get("admin")
    try:
        settings = load_settings(options.config, options.set, _told(options))
        first = settings.pipelines[0]
        logs.configure("admin", level=first.log.level, style=first.log.format)
        return asyncio.run(serve(settings))
    except ConfigError as error:
        print(error, file=sys.stderr)
        if error.remedy:
            print(error.remedy, file=sys.stderr)
        return error.exit_code
    except Exception as error:
        failure = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
        log.failure("admin_failed", failure)
        return classify(failure).exit_code


async def serve(settings: AdminSettings) -> int:
    log = logs.get("admin")
    with _bound(settings.http) as listener:
        host, port = listener.getsockname()[:2]
        watch, access = Watch(settings.pipelines), Access(settings)
        follower = Follower(settings.reloads, (watch.follow, access.follow))
        server = _Server(
            uvicorn.Config(
                create_app(settings, watch, access),
                log_config=None,
                access_log=False,
                server_header=False,
                http=BoundedHeads,
                ws="none",
                limit_concurrency=_REQUESTS_AT_ONCE,
                timeout_graceful_shutdown=_GRACE_SECONDS,
            )
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.end)
        loop.add_signal_handler(signal.SIGHUP, follower.ask)
        log.info("serving", host=host, port=port, pipelines=len(settings.pipelines))
        async with access.running(), watch.running(), follower.running():
            sys.setswitchinterval(_SWITCH_SECONDS)
            gc.freeze()  # What is there stays: going over it again takes 100 ms, in which nobody is answered.
            await server.serve(sockets=[listener])
    log.info("stopped")
    return ExitCode.CLEAN


class _Server(uvicorn.Server):
    """Signals are ours: uvicorn would raise them again when it is done, and the exit code would not be 0."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._patience = Patience()

    async def on_tick(self, counter: int) -> bool:
        self._patience.sweep(list(self.server_state.connections), time.monotonic())
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def end(self) -> None:
        self.should_exit = True


@contextmanager
def _bound(address: Address) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # With its protocol named, asyncio sends at once; else each small answer waits 40 ms for the other side's ACK.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address.host, address.port))
            listener.listen(_BACKLOG)
        except OSError as error:
            raise ConfigError(
                f"{address} cannot be listened on ({error.strerror})",
                code="HTTP_ADDRESS",
                remedy="Free the port, or set another one: --listen 127.0.0.1:8090.",
            ) from error
        yield listener


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tidegate-admin",
        description="What an operator sees of pipelines: REST API, page, health and metrics.",
        epilog=f"Exit codes: {ExitCode.CLEAN} clean, {ExitCode.RETRY} restart me, {ExitCode.CONFIGURATION} "
        f"configuration, {ExitCode.LOST} a person must decide. Listening beyond loopback needs tokens.",
    )
    parser.add_argument(
        "--config", required=True, action="append", metavar="FILE", help="a pipeline's YAML file; again for more"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="PATH=VALUE", help="overrides one setting in every file"
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help="instead of the files' admin.http")
    parser.add_argument(
        "--tokens", metavar="FILE", help=f"made by `tidegate token create`; default: ${TOKENS_VARIABLE}"
    )
    parser.add_argument(
        "--state", metavar="DIR", help="keeps the index of dead letters over a restart; default: it is built anew"
    )
    parser.add_argument(
        "--allow-url",
        action="append",
        default=[],
        metavar="HOST[:PORT]",
        help="a name, address or network that URLs in configurations may lead to besides public ones",
    )
    for name, default in (("reads", Limits().reads), ("changes", Limits().changes)):
        parser.add_argument(
            f"--{name}-a-second",
            type=float,
            default=default.a_second,
            metavar="N",
            help=f"{name} of one caller, in the long run; default {default.a_second:g}",
        )
    return parser


def _told(options: argparse.Namespace) -> Told:
    rates = Limits.of(options.reads_a_second, options.changes_a_second)
    return Told(options.listen, options.tokens, options.state, tuple(options.allow_url), rates)
