"""Redis's client without metrics of its own: it imports OpenTelemetry's wherever they are installed, asked to or not.

Invariant: what is hidden is hidden only while the client is imported; who needs OpenTelemetry later finds it.
"""

import sys

# 3 MB and a tenth of a second, by redis-py 8 in an image that has the extra `tracing`.
_HIDDEN = ("opentelemetry.metrics", "opentelemetry.sdk.metrics")


def import_lean() -> None:
    """To be called before anybody imports `redis`; afterwards it changes nothing."""
    hidden = [name for name in _HIDDEN if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # to the import system: it is not there
    try:
        import redis.asyncio  # noqa: F401
    finally:
        for name in hidden:
            del sys.modules[name]
