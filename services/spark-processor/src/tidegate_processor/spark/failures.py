"""Spark's failures, as the driver meets them: its JVM is gone, does not answer, or refuses. The outside may heal.

What a lane's stage runs into is none of them: that is recorded in the lane's status, and judged there.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tidegate.errors import TransientError


@contextmanager
def mapped() -> Iterator[None]:
    """Around all that the driver does with Spark. A JVM that has ended refuses the next connection."""
    try:
        yield
    except (Py4JError, PySparkException, ConnectionError) as error:
        raise TransientError(
            f"Spark failed the driver: {type(error).__name__}",
            code="SPARK_FAILED",
            remedy="Nothing, if it comes once: the processor starts again, and lanes go on at their cursors. Else read "
            "the processor's log; a JVM that is killed has processor.heap or the container's limit too low.",
        ) from error
